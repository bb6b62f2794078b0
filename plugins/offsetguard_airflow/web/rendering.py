"""How a page is given: as HTML in the reader's language, or the same view as JSON or CSV from the same address."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlencode

from fastapi import HTTPException, Request, status
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sqlalchemy import Engine

from offsetguard.catalogue import Catalogue, catalogue
from offsetguard.catalogue.text import Language, Locale
from offsetguard.config.workspace import Workspace
from offsetguard.deliver.messages.wording import harmless_view
from offsetguard.model.errors import ConfigError, StoreError
from offsetguard.model.views import Record
from offsetguard.store.database import open_migrated
from offsetguard_airflow.web.forms import FORM_HEADERS
from offsetguard_airflow.web.static_files import tag_of

TEMPLATES = Path(__file__).parents[1] / "page" / "templates"
_ENVIRONMENT = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.globals["load"] = tag_of
# Where a spreadsheet would begin to run something: it may skip what cannot be seen, take wide forms of the signs for
# them, and split cells at semicolons
_FORMULA = re.compile(r"(^|;)(?=[\s\x00-\x1f\u200b-\u200f\u2060\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20])")


def html(template: str, **given: object) -> Response:
    """Return a page that may have forms and our own scripts."""
    return HTMLResponse(_ENVIRONMENT.get_template(template).render(given), headers=FORM_HEADERS)


def words_for(request: Request) -> Catalogue:
    """Return the catalogue of who asks: `?lang=zh`, else what the browser prefers; by the clock that zone.js told."""
    asked = request.query_params.get("lang") or request.headers.get("accept-language", "").partition(",")[0]
    language = Language.ZH if asked.casefold().startswith("zh") else Language.EN
    try:
        return catalogue(Locale.of(language, unquote(request.cookies["offsetguard_zone"])))
    except (KeyError, ConfigError):  # untold, or a zone that this machine does not know
        return catalogue(Locale(language))


def given_as(request: Request, template: str, view: Record, lines: Iterable[Record], **harmless: object) -> Response:
    """Return a view as the reader wants it: `?format=json` or `csv`, or the same by `Accept`; else as a page.

    `lines`: those of its table, which CSV has; names that a spreadsheet would run begin with an apostrophe there.
    `harmless`: what the page needs besides, and holds no text of a broker.
    """
    match format_of(request):
        case "json":
            given: Response = JSONResponse(view.model_dump(mode="json"), headers=FORM_HEADERS)
        case "csv":
            given = Response(csv_of(lines), headers=FORM_HEADERS, media_type="text/csv; charset=utf-8")
        case _:
            words = words_for(request)
            said = {"words": words, "say": words.say, "figure": words.figure}
            given = html(template, view=harmless_view(view), **said, **harmless)
    given.headers.update(getattr(request.state, "headers", {}))  # of `unless_unchanged`
    return given


def format_of(request: Request) -> str:
    """Return json, csv or html: what the address or else `Accept` asks for."""
    accepted = request.query_params.get("format") or request.headers.get("accept", "")
    return "html" if "html" in accepted else next((one for one in ("json", "csv") if one in accepted), "html")


def lead_to_folder(request: Request) -> Response:
    """Lead to the address below which relative links work."""
    return RedirectResponse(f"{request.url.path.rpartition('/')[2]}/", status.HTTP_307_TEMPORARY_REDIRECT)


def address_of(page: str, **query: str) -> str:
    """Return a page's address beside this one; any name may stand in it."""
    return f"{page}?{urlencode(query)}"


def our_engine() -> Engine:
    """Return the database's engine; 503 with the reason where there is none."""
    try:
        return _opened(Workspace.from_environment().database_url)
    except StoreError as error:
        raise HTTPException(status.HTTP_503_SERVICE_UNAVAILABLE, str(error)) from error


@cache
def _opened(url: str) -> Engine:
    """Open a database once in the life of a worker; one that cannot be opened is tried again.

    A page migrates nothing: who looks need not be who may change tables.
    """
    return open_migrated(url)


def csv_of(lines: Iterable[Record]) -> str:
    """Return lines as CSV that a spreadsheet only shows: what it would run begins with an apostrophe."""
    written = io.StringIO()
    rows = [line.model_dump(mode="json") for line in lines]
    if rows:
        writer = csv.DictWriter(written, list(rows[0]), quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return written.getvalue()


def _cell(value: object) -> object:
    return _FORMULA.sub(r"\1'", value) if isinstance(value, str) else value
