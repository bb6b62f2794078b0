"""How a page is given: as HTML in the reader's language, or the same view as JSON or CSV from the same address.

Templates have views as they are, names of brokers and all: what they print is made harmless on its way out, and what
they link to is not. Every page has the bar of `layout.html.j2`.
"""

import base64
import csv
import hashlib
import io
import re
import shlex
from collections.abc import Iterable
from datetime import datetime
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlencode, urljoin

from fastapi import HTTPException, Request, status
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pydantic import BaseModel

from offsetguard.catalogue import Catalogue, catalogue
from offsetguard.catalogue.text import Language, Locale
from offsetguard.deliver.messages.wording import harmless, harmless_link
from offsetguard.model.errors import ConfigError
from offsetguard.model.views import Record
from offsetguard.views.course import HEIGHT, WIDTH, plot_of, spark_of
from offsetguard_airflow.web.forms import FORM_HEADERS
from offsetguard_airflow.web.workspace import views_of_workspace

STATIC = Path(__file__).parents[1] / "page" / "static"
VENDORED = {
    "htmx.min.js": "sha384-2OatzQy1H+Zd/IIrjr1TcuDGqLXeHhbooAyJY1KdQMKnr4LZ22k31GBLdYKHmVjg",  # htmx.org 2.0.11
    "uPlot.iife.min.js": "sha384-Gx3t0zdBAuQOuvvmaLZj7HKEiSgWTAs+VdtNY7wt19QDPTDQjFIwAuXDj0zeN00c",  # uplot 1.6.32
    "uPlot.min.css": "sha384-IfV0B7MIOYuO95kO9G5ySKPz/85zqFNOAs8iy4tkK5zd9izhJAB8b7lHrwYqqmYE",
}
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "private, max-age=31536000, immutable"}
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}


def give_static(name: str) -> Response:
    """Give one of our files; 404 for every other name."""
    file = {one.name: one for one in STATIC.iterdir()}.get(name)
    if file is None or file.suffix not in _TYPES:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no such file")
    return FileResponse(file, headers=_HEADERS, media_type=_TYPES[file.suffix])


@cache
def tag_of(name: str, up: str) -> Markup:
    """Return what loads a script or a style; `up`: from the page to our prefix, `../` mostly."""
    digest = hashlib.sha384((STATIC / name).read_bytes()).digest()
    integrity = VENDORED.get(name) or f"sha384-{base64.b64encode(digest).decode()}"
    address = f"{up}static/{name}?v={digest.hex()[:12]}"
    if name.endswith(".css"):
        return Markup('<link rel="stylesheet" href="{}" integrity="{}">').format(address, integrity)
    return Markup('<script src="{}" integrity="{}" defer></script>').format(address, integrity)


TEMPLATES = Path(__file__).parents[1] / "page" / "templates"
_LIMIT = 2_000  # characters of one text of a page
_CURL = 'curl -H "Authorization: Bearer $TOKEN" {}'
_CARRIED = ("lang", "zone")  # what a reader asked for stays asked on the pages that follow


def _printed(value: object) -> object:
    """Return what a template prints, with nothing hidden in it."""
    return harmless(value, _LIMIT) if isinstance(value, str) and not isinstance(value, Markup) else value


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=True,
    finalize=_printed,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.globals.update(width=WIDTH, height=HEIGHT)
_ENVIRONMENT.filters.update(plot=plot_of, spark=spark_of)
_ENVIRONMENT.filters["link"] = harmless_link
# Where a spreadsheet would begin to run something: it may skip what cannot be seen, take wide forms of the signs for
# them, and split cells at semicolons
_FORMULA = re.compile(r"(^|;)(?=[\s\x00-\x1f\u200b-\u200f\u2060\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20])")


def html(request: Request, template: str, *, view: Record | None = None, **given: object) -> Response:
    """Return a page that may have forms and our own scripts; `given`: what it needs besides its view."""
    bar = None
    try:
        with views_of_workspace() as views:
            bar = views.bar(getattr(view, "cluster", request.query_params.get("cluster", "")))
    except HTTPException:  # a page that needs no database is shown without one
        if view is not None:
            raise
    return HTMLResponse(_rendered(request, template, view=view, bar=bar, **given), headers=FORM_HEADERS)


def refused(request: Request, because: str, status_code: int) -> Response:
    """Return the page that says why there is none; it asks the database for nothing."""
    said = {
        "because": because,
        "is_missing": status_code == status.HTTP_404_NOT_FOUND,
        "is_form": request.method == "POST",
        "searched": request.query_params.get("consumer_group") or request.query_params.get("topic", ""),
    }
    return HTMLResponse(
        _rendered(request, "refused.html.j2", view=None, bar=None, **said), status_code, headers=FORM_HEADERS
    )


def _rendered(request: Request, template: str, *, view: Record | None, **given: object) -> str:
    words, asked = words_for(request), getattr(view, "asked", None)
    below = request.url.path.removeprefix(request.scope.get("root_path", ""))
    up = "../" * (below.count("/") - 1) or "./"
    carried = carried_by(request)

    def to(page: str, /, **query: object) -> str:
        return address_of(up + page, **{**carried, **query})

    def here(**changes: object) -> str:
        kept = dict(request.query_params) if asked is None else {**carried, **_said(asked)}
        return address_of("", **{**kept, **changes}) or "?"

    return _ENVIRONMENT.get_template(template).render(
        {"words": words, "say": words.say, "figure": words.figure, "language": words.locale.language},
        comma=words.locale.words.comma,
        colon=words.locale.words.colon,
        between=words.locale.words.between,
        to=to,
        here=here,
        curl=_CURL.format(shlex.quote(urljoin(str(request.url), here(format="json")))),
        load=lambda name: tag_of(name, up),
        carried=carried,
        section=below.split("/")[1] if "/" in below else "",
        is_list=below.endswith("/"),
        view=view,
        asked=asked,
        asked_for=_said(asked),
        **given,
    )


def carried_by(request: Request) -> dict[str, str]:
    """Return what stays asked on the pages that follow."""
    return {name: request.query_params[name] for name in _CARRIED if name in request.query_params}


def _said(asked: BaseModel | None) -> dict[str, object]:
    """Return what an address says that is not the default."""
    return {} if asked is None else asked.model_dump(mode="json", exclude_defaults=True)


def words_for(request: Request) -> Catalogue:
    """Return the catalogue of who asks: `?lang=zh`, else what the browser prefers.

    By the clock of `?zone=UTC`, else by that which zone.js told.
    """
    asked = request.query_params.get("lang") or request.headers.get("accept-language", "").partition(",")[0]
    language = Language.ZH if asked.casefold().startswith("zh") else Language.EN
    try:
        zone = request.query_params.get("zone") or unquote(request.cookies["offsetguard_zone"])
        return catalogue(Locale.of(language, zone))
    except (KeyError, ConfigError):  # untold, or a zone that this machine does not know
        return catalogue(Locale(language))


def given_as(request: Request, template: str, view: Record, lines: Iterable[Record], **more: object) -> Response:
    """Return a view as the reader wants it: `?format=json` or `csv`, or the same by `Accept`; else as a page.

    `lines`: those of its table, which CSV has; names that a spreadsheet would run begin with an apostrophe there.
    """
    match format_of(request):
        case "json":
            given: Response = JSONResponse(view.model_dump(mode="json"), headers=FORM_HEADERS)
        case "csv":
            given = Response(csv_of(lines), headers=FORM_HEADERS, media_type="text/csv; charset=utf-8")
        case _:
            given = html(request, template, view=view, **more)
    given.headers.update(getattr(request.state, "headers", {}))  # of `unless_unchanged`
    return given


def by_readers_clock(request: Request) -> None:
    """Lead the moments of a form, which go by the reader's clock, to the address that means the same to everybody."""
    asked = dict(request.query_params)
    given = {name: _aware(asked[name], words_for(request).locale) for name in ("since", "until") if name in asked}
    if not given.items() <= asked.items():
        raise HTTPException(status.HTTP_303_SEE_OTHER, headers={"Location": address_of("", **(asked | given))})


def _aware(moment: str, locale: Locale) -> str:
    try:
        parsed = datetime.fromisoformat(moment)
        return moment if parsed.tzinfo else parsed.replace(tzinfo=locale.zone).isoformat()
    except (ValueError, OverflowError):  # it is refused by whoever wants one
        return moment


def unless_unchanged(request: Request) -> None:
    """Answer 304 to who has the view already; else have it given with its ETag.

    A route depends on this if all that it shows is in the stamp of the workspace's views: no form, which has a token.
    """
    with views_of_workspace() as views:
        stamp = views.stamp(request.query_params.get("cluster", ""))
    locale = words_for(request).locale
    seen = (stamp, request.url.path, request.url.query, format_of(request), locale.language, str(locale.zone))
    etag = f'W/"{hashlib.sha256(repr(seen).encode()).hexdigest()[:32]}"'
    headers = {"Cache-Control": "private, no-cache", "ETag": etag, "Vary": "Accept, Accept-Language, Cookie"}
    if etag in request.headers.get("if-none-match", ""):
        raise HTTPException(status.HTTP_304_NOT_MODIFIED, headers=headers)
    request.state.headers = headers


def format_of(request: Request) -> str:
    """Return json, csv or html: what the address or else `Accept` asks for."""
    accepted = request.query_params.get("format") or request.headers.get("accept", "")
    return "html" if "html" in accepted else next((one for one in ("json", "csv") if one in accepted), "html")


def lead_to_folder(request: Request) -> Response:
    """Lead to the address below which relative links work."""
    return RedirectResponse(f"{request.url.path.rpartition('/')[2]}/", status.HTTP_307_TEMPORARY_REDIRECT)


def address_of(page: str, /, **query: object) -> str:
    """Return an address; what is asked as nothing is left out, and any name may stand in the rest."""
    wanted = {name: value for name, value in query.items() if value not in (None, "", False)}
    asked = urlencode({name: "true" if value is True else value for name, value in wanted.items()})
    return f"{page}?{asked}" if asked else page


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
