"""What only a process may do that runs one command and ends.

pyarrow is the largest thing that `offsetguard collect` loads, and it is not needed before the first answers are there.
A round loads it while they are awaited, and here without NumPy, which pyarrow takes along when it finds it and which
takes longer to load than pyarrow itself: measured 155 of 460 ms CPU of a start, 75 without. No command uses NumPy,
nor what pyarrow has for file systems of clouds: 6 ms more.
In a process that others share (a worker of Airflow, a run of tests) this would be wrong: pyarrow could not convert
from or to NumPy and pandas until the process ends, nor asyncio open a connection with TLS.
Nor is it worth looking for reference cycles again and again while modules are imported, or while tens of thousands of
records are made that have none and live to the end: a tenth of the CPU of a round.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import NoReturn


class OwnProcess:
    """Given to commands by the program's entry point, and by nobody else: `click.Context.find_object(OwnProcess)`."""

    def keep_all_objects(self) -> None:
        """Look for no reference cycles any more: the end of the process frees what is left."""
        gc.disable()

    def look_for_garbage(self) -> None:
        """Look for them again."""
        gc.enable()

    def end(self, exit_code: int) -> NoReturn:
        """End at once: what was written is written, and taking all objects apart is in vain."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)

    def load_asyncio_without_tls(self) -> None:
        """Let asyncio be loaded without OpenSSL: who knows that nobody is asked by TLS starts 7 ms earlier."""
        if not {"asyncio", "ssl"} & sys.modules.keys():
            sys.modules["ssl"] = None  # type: ignore[assignment]  # as below
            importlib.import_module("asyncio")
            del sys.modules["ssl"]

    def load_less_with_pyarrow(self) -> None:
        """Let pyarrow be loaded without NumPy and without clouds, from now on."""
        if not {"numpy", "pyarrow"} & sys.modules.keys():
            for name in ("numpy", "pyarrow._s3fs", "pyarrow._azurefs", "pyarrow._gcsfs", "pyarrow._hdfs"):
                sys.modules[name] = None  # type: ignore[assignment]  # Python's own way to say that there is none
