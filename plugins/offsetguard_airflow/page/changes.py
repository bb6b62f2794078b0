"""What changed in a cluster, by whoever did it; and silences, whose ends a form here can bring forward.

Who may see the pages may see both; who may silence may end a silence.
"""

from __future__ import annotations

from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Query, Request, status
from fastapi.responses import RedirectResponse, Response

from offsetguard.model.changes import Kind
from offsetguard.store import silences
from offsetguard.store.database import current_time, writing
from offsetguard.views.changes import AskedChanges, ClusterChange
from offsetguard.views.course import Span
from offsetguard_airflow.web.forms import FORM_HEADERS
from offsetguard_airflow.web.posted_forms import Form, check_token, not_ours, silence_number, token_for
from offsetguard_airflow.web.published_views import views_of_workspace
from offsetguard_airflow.web.rendering import address_of, given_as, lead_to_folder, our_engine, words_for
from offsetguard_airflow.web.rights import MayAct


def routes(may_write: list[object]) -> APIRouter:
    """Return the routes; `may_write`: what the one that ends a silence depends on beside the login."""
    router = APIRouter()
    router.get("")(lead_to_folder)
    router.get("/")(show_changes)
    router.post("/", dependencies=may_write)(end_silence)  # type: ignore[arg-type]
    return router


def show_changes(
    request: Request, asked: Annotated[AskedChanges, Query()], user: GetUserDep, may_act: MayAct
) -> Response:
    """Show what the address asks for."""
    words = words_for(request)
    with views_of_workspace() as views:
        view = views.changes(asked, words)
    language = words.locale.language
    return given_as(
        request,
        "changes.html.j2",
        view,
        view.changes,
        owners=[_owner_address(one, language) for one in view.changes],
        topics=[
            address_of("../fleet/topic", cluster=one.cluster, topic=one.topic, lang=language) if one.topic else None
            for one in view.changes
        ],
        kinds=list(Kind),
        spans=list(Span),
        token=token_for(user),
        may_act=may_act,
    )


def end_silence(request: Request, form: Form, user: GetUserDep) -> Response:
    """End a silence before its time, and show the same changes again."""
    check_token(form, user)
    if form.get("do") != "expire":
        raise not_ours()
    with writing(our_engine()) as session:
        silences.expire(session, silence_number(form), now=current_time(session))
    return RedirectResponse(f"./?{request.url.query}#silences", status.HTTP_303_SEE_OTHER, headers=FORM_HEADERS)


def _owner_address(change: ClusterChange, language: str) -> str | None:
    if change.consumer_group is None:
        return None
    return address_of("../fleet/group", cluster=change.cluster, consumer_group=change.consumer_group, lang=language)
