"""What is said of a database that cannot be used: its address without secrets, what its driver says, and what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Engine, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError, SQLAlchemyError

from offsetguard.config.workspace import disk_advice, takes_nothing

_LONGEST = 600
DAMAGED = (
    "it is damaged: stop what writes to it, keep a copy, and bring its newest backup back "
    "(docs/operations.md#a-damaged-database)"
)
_SQLITE_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_MISSING = "bring the newest backup back, or name an empty database in OFFSETGUARD_DATABASE_URL"
_NO_ENUM = "is not among the defined enum values"  # of a text, SQLAlchemy
_NO_UTF8 = "Could not decode to UTF-8"  # of a text, where SQLite's module gives no code
# PostgreSQL's documentation, appendix A
_ADVICE_BY_STATE = {
    "XX": DAMAGED,
    "42501": "this role may not do that: grant it the rights on OffsetGuard's tables",
    "42P01": _MISSING,
    "42703": _MISSING,
}


class DatabaseNamed(OperationalError):
    """An error that says which database, and what to do: its text may be shown to whoever reads our pages."""


class DamagedValue(DatabaseNamed):
    """A value of a row that is none of its column."""

    def __init__(self, what: str, database: str = "the database") -> None:
        """Say what is wrong, and show nothing of the row: its texts may be anybody's."""
        super().__init__(None, None, Exception(f"{database}: cannot be read: {what}; {DAMAGED}"))
        self.what = what


@contextmanager
def naming_values(url: URL) -> Iterator[None]:
    """Name the database in what its rows raise after its driver has given them."""
    try:
        yield
    except DamagedValue as error:
        raise DamagedValue(error.what, shown(url)) from error
    except LookupError as error:
        if _NO_ENUM not in str(error):
            raise
        raise DamagedValue("a value that is none of its column's words", shown(url)) from error


def read_url(url: str) -> URL:
    """Return the parts of a database's URL.

    Raises ValueError, which shows nothing of it: where it is wrong, any part may be one of its password.
    """
    try:
        parsed = make_url(url)
        parsed.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise ValueError("is not an SQLAlchemy URL") from None
    if "sqlite" not in parsed.drivername and "@" in f"{parsed.host}{parsed.database}":
        raise ValueError("is not an SQLAlchemy URL: write @ : / ? % of its password as %40 %3A %2F %3F %25")
    return parsed


def shown(url: URL) -> str:
    """Name a database: an SQLite file, or a URL without its password and its query, which may hold more of them."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.set(query={}).render_as_string(hide_password=True)


def what_failed(error: SQLAlchemyError) -> str:
    """Return what a driver said in one line, without the statement and its values."""
    return " ".join(str(getattr(error, "orig", None) or error).split())[:_LONGEST]


def name_errors(engine: Engine) -> None:
    """Let each error of an engine that somebody can mend be DatabaseNamed, and none quote a row."""

    @event.listens_for(engine, "handle_error", retval=True)
    def _name(context: ExceptionContext) -> Exception | None:
        error = context.original_exception
        _leave_rows_out(context)
        advice = _advice_of(engine.url, error)
        if advice is None:
            return None
        return DatabaseNamed(None, None, Exception(f"{shown(engine.url)}: {error}; {advice}"))


def _advice_of(url: URL, error: BaseException) -> str | None:
    if url.get_backend_name() != "sqlite":
        state = getattr(error, "sqlstate", None) or ""
        return _ADVICE_BY_STATE.get(state) or _ADVICE_BY_STATE.get(state[:2])
    is_damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF in _SQLITE_DAMAGED or _NO_UTF8 in str(error)
    if is_damaged or isinstance(error, UnicodeDecodeError):  # what SQLite says quotes what is damaged
        return DAMAGED
    if str(error).startswith(("no such table", "no such column")):
        return _MISSING
    file = Path(url.database or "")
    if isinstance(error, sqlite3.OperationalError) and "locked" not in str(error) and takes_nothing(file):
        return disk_advice(file)
    return None


def _leave_rows_out(context: ExceptionContext) -> None:
    """Let an error say what is wrong, and not for which row: PostgreSQL quotes its values in "DETAIL"."""
    primary = getattr(getattr(context.original_exception, "diag", None), "message_primary", None)
    if primary is not None:
        context.original_exception.args = (primary,)
        if context.sqlalchemy_exception is not None:
            context.sqlalchemy_exception.args = (primary,)
