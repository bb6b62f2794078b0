"""Servers that are built by Go, once, and kept in the cache beside the jars: minutes at the first time."""

import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

from offsetguard_spark.jars import cache_folder


def built_by_go(module: str, version: str) -> Path:
    """Return the program of a module; raises FileNotFoundError where it has to be built and there is no Go."""
    name = module.rpartition("/")[2]
    program = cache_folder() / f"{name}-{version}" / name
    if program.exists():
        return program
    go = shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin")
    if go is None:
        raise FileNotFoundError(f"{name} is built by Go, and there is none: install Go 1.24 or newer")
    with tempfile.TemporaryDirectory(prefix="offsetguard-go-") as folder:
        environment = {**os.environ, "GOBIN": folder, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
        subprocess.run([go, "install", f"{module}@v{version}"], env=environment, check=True)
        program.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(folder) / name, part := program.with_name(f"{secrets.token_hex(4)}.part"))
        part.rename(program)  # whole or not there: others may build it at the same time
    return program
