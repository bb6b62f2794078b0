"""Silences of all clusters: who wanted them, why and until when, what each matches; made, extended and ended here.

The address has the matchers of one that may be made, so that the page shows beforehand what it would match.
"""

from datetime import timedelta
from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException, Query, Request, status
from fastapi.responses import RedirectResponse, Response

from offsetguard.model.errors import SilenceError
from offsetguard.model.notification import Matchers, Silence
from offsetguard.store import silences
from offsetguard.store.database import current_time, writing
from offsetguard.views.silences import AskedSilences
from offsetguard_airflow.web.forms import (
    FORM_HEADERS,
    SPANS,
    Form,
    check_token,
    comment_of,
    not_ours,
    silence_number,
    token_for,
)
from offsetguard_airflow.web.rendering import address_of, carried_by, given_as, lead_to_folder, words_for
from offsetguard_airflow.web.rights import DAG_THAT_MAKES_THEM, RESOURCE, MayAct
from offsetguard_airflow.web.workspace import our_engine, views_of_workspace


def routes(may_write: list[object]) -> APIRouter:
    """Return the routes; `may_write`: what the one that changes silences depends on beside the login."""
    router = APIRouter()
    router.get("")(lead_to_folder)
    router.get("/")(show_silences)
    router.post("/", dependencies=may_write)(take_form)  # type: ignore[arg-type]
    return router


def show_silences(
    request: Request, asked: Annotated[AskedSilences, Query()], user: GetUserDep, may_act: MayAct
) -> Response:
    """Show all of them, and what one would match that the address asks for."""
    with views_of_workspace() as views:
        view = views.silences(asked, words_for(request))
    return given_as(
        request,
        "silences.html.j2",
        view,
        view.silences,
        forms={"token": token_for(user), "spans": SPANS},
        may_act=may_act,
        missing={"dag_id": DAG_THAT_MAKES_THEM, "resource": RESOURCE},
    )


def take_form(request: Request, asked: Annotated[AskedSilences, Query()], form: Form, user: GetUserDep) -> Response:
    """Make the silence that the address asks for, or extend or end one; and show all of them."""
    check_token(form, user)
    with writing(our_engine()) as session:
        now = current_time(session)
        match form.get("do"):
            case "add" if form.get("span") in SPANS:
                ends_at = now + timedelta(milliseconds=SPANS[form["span"]])
                try:
                    made = Silence(asked.matchers or Matchers(), user.get_name(), comment_of(form), now, ends_at, now)
                except SilenceError as error:
                    raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, str(error)) from error
                silences.add(session, made)
            case "extend" if form.get("span") in SPANS:
                by = timedelta(milliseconds=SPANS[form["span"]])
                silences.extend(session, silence_number(form), by=by, now=now)
            case "expire":
                silences.expire(session, silence_number(form), now=now)
            case _:
                raise not_ours()
    return RedirectResponse(address_of("./", **carried_by(request)), status.HTTP_303_SEE_OTHER, headers=FORM_HEADERS)
