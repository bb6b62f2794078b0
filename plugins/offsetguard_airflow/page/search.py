"""One search box for groups, topics, brokers, clients and incidents of all clusters; one hit is shown at once."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, status
from fastapi.responses import RedirectResponse, Response

from offsetguard.views.search import AskedSearch, Found, FoundKind
from offsetguard_airflow.web.forms import FORM_HEADERS
from offsetguard_airflow.web.rendering import address_of, carried_by, format_of, given_as, lead_to_folder, words_for
from offsetguard_airflow.web.workspace import views_of_workspace


def routes(may_write: list[object]) -> APIRouter:
    """Return the routes; nothing is changed here."""
    router = APIRouter()
    router.get("")(lead_to_folder)
    router.get("/")(show_found)
    return router


def show_found(request: Request, asked: Annotated[AskedSearch, Query()]) -> Response:
    """Show what has the name; lead to it where it is the only one."""
    with views_of_workspace() as views:
        view = views.search(asked, words_for(request))
    if view.only is not None and format_of(request) == "html":
        there = _address(view.only, **carried_by(request))
        return RedirectResponse(there, status.HTTP_303_SEE_OTHER, headers=FORM_HEADERS)
    addresses = [_address(one, **carried_by(request)) for one in view.found]
    return given_as(request, "search.html.j2", view, view.found, addresses=addresses)


def _address(found: Found, **carried: str) -> str:
    """Return the page of what was found; of a broker, what changed about it."""
    cluster = found.cluster
    match found.kind:
        case FoundKind.GROUP:
            return address_of("../fleet/group", cluster=cluster, consumer_group=found.name, **carried)
        case FoundKind.TOPIC:
            return address_of("../fleet/topic", cluster=cluster, topic=found.name, **carried)
        case FoundKind.BROKER:
            return address_of("../changes/", cluster=cluster, search=found.name, span="24h", **carried)
        case FoundKind.CLIENT:
            group = address_of("../fleet/group", cluster=cluster, consumer_group=found.consumer_group, **carried)
            return f"{group}#members"
    return address_of(f"../incidents/{found.name}", **carried)
