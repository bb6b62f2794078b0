"""Folders of an object store as paths: `s3://BUCKET/PREFIX`, for hosts that share no disk.

Who may read and write there is said as everywhere: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the files of `aws
configure`, or the role of the host; AWS_ENDPOINT_URL names another store than Amazon's, AWS_REGION the region. UPath
has the interface of pathlib, so that readers need not know where a file lies. What differs is known to those who write:
an object appears whole or not at all, nothing can be renamed, and to list costs a request for each thousand.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from cachetools import LRUCache

STORE_ADVICE = (
    "check OFFSETGUARD_HOME, AWS_ENDPOINT_URL and AWS_REGION, that the bucket exists, and that the credentials "
    "(AWS_ACCESS_KEY_ID, the Airflow connection aws_default, or the host's role) may read and write there"
)
_CHANGED_MEANWHILE = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
_PATIENCE = {"connect_timeout": 5, "read_timeout": 20, "retries": {"max_attempts": 4, "mode": "standard"}}


def is_remote(path: Path | str) -> bool:
    """Whether it lies in an object store."""
    return not isinstance(path, Path) if not isinstance(path, str) else path.startswith("s3://")


def remote_path(location: str) -> Path:
    """Return a location in an object store as a path."""
    return _remote_path(location, os.getpid())


@lru_cache(maxsize=64)
def _remote_path(location: str, process_id: int) -> Path:
    from upath import UPath  # noqa: PLC0415 0.4 s, for nothing where all is local

    options: dict[str, Any] = {"use_listings_cache": False, "config_kwargs": _PATIENCE}
    if region := os.environ.get("AWS_REGION"):
        options["client_kwargs"] = {"region_name": region}
    return cast("Path", UPath(location, **options))


def make_folder(folder: Path) -> None:
    """Make a folder with those above it, where there are folders; a bucket is nothing that we make."""
    if not is_remote(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Raise OSError for a store that cannot be reached, too: for that the SDK has classes of its own."""
    from aiohttp import ClientError  # noqa: PLC0415 nothing where all is local
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise OSError(str(error)) from error


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes, by one request; raises FileNotFoundError, or another OSError."""
    if not is_remote(path):
        return path.read_bytes()
    with _as_os_errors():
        return cast("bytes", filesystem(path).cat_file(_key(path)))


@_as_os_errors()
def write_bytes(path: Path, content: bytes) -> None:
    """Write an object, whole; raises OSError."""
    filesystem(path).pipe_file(_key(path), content)


def filesystem(path: Path) -> Any:
    """Return fsspec's file system of a remote path: what DuckDB, pyarrow and pyiceberg take."""
    return path.fs  # type: ignore[attr-defined]


def unchanging_files(path: Path) -> Any:
    """Return fsspec's file system for files that never change once they are there: each is looked at once.

    DuckDB asks four times what a file is, before it reads it.
    """
    from s3fs import S3FileSystem  # noqa: PLC0415 nothing where all is local

    class Unchanging(S3FileSystem):  # type: ignore[misc] # s3fs declares no types
        async def _info(self, path: str, *args: Any, **kwargs: Any) -> Any:
            if path not in known:
                known[path] = await super()._info(path, *args, **kwargs)
            return known[path]

    known: LRUCache[str, Any] = LRUCache(10_000)
    return Unchanging(**filesystem(path).storage_options, skip_instance_cache=True)


@_as_os_errors()
def read_tagged(path: Path) -> tuple[bytes, str]:
    """Return an object with the tag of its content; raises FileNotFoundError, or another OSError."""
    from fsspec.asyn import sync  # noqa: PLC0415 nothing where all is local

    store, (bucket, key, _) = filesystem(path), _parts(path)
    answer = store.call_s3("get_object", Bucket=bucket, Key=key)
    return sync(store.loop, answer["Body"].read), answer["ETag"]


@_as_os_errors()
def replace_tagged(path: Path, content: bytes, tag: str | None) -> bool:
    """Write an object where it still is what `tag` says (None: where there is none); returns whether it was.

    Raises OSError.
    """
    bucket, key, _ = _parts(path)
    condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
    try:
        filesystem(path).call_s3("put_object", Bucket=bucket, Key=key, Body=content, **condition)
    except OSError as error:
        if _code_of(error) in _CHANGED_MEANWHILE:
            return False
        raise
    return True


def _code_of(error: OSError) -> str:
    response = getattr(error.__cause__, "response", {})
    return str(response.get("Error", {}).get("Code", ""))


def _parts(path: Path) -> tuple[str, str, str | None]:
    return cast("tuple[str, str, str | None]", filesystem(path).split_path(_key(path)))


def files_below(folder: Path) -> list[tuple[str, datetime]]:
    """Return all files below a folder, and when each was written; objects by a request for each thousand."""
    if is_remote(folder):
        with _as_os_errors():
            found = filesystem(folder).find(_key(folder), detail=True)
        return [(f"s3://{name}", told["LastModified"]) for name, told in found.items()]
    files = [(str(file), file.stat().st_mtime) for file in folder.rglob("*") if file.is_file()]
    return [(name, datetime.fromtimestamp(written_s, UTC)) for name, written_s in files]


@_as_os_errors()
def delete(folder: Path) -> None:
    """Delete all objects below a remote folder, a thousand by a request."""
    store = filesystem(folder)
    if names := store.find(_key(folder)):
        store.rm(names)


def _key(path: Path) -> str:
    return cast("str", path.path)  # type: ignore[attr-defined]
