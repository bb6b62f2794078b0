"""Incidents behind Airflow's login: the list, one incident, and forms to acknowledge and to silence it.

What is done stands under the name that Airflow knows.
"""

from datetime import datetime, timedelta
from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, HTTPException, Query, Request, status
from fastapi.responses import RedirectResponse, Response
from sqlalchemy.orm import Session

from offsetguard.model.errors import SilenceError
from offsetguard.model.incident import Incident, Subject
from offsetguard.model.notification import Matchers, Silence, literal
from offsetguard.model.views import ACKNOWLEDGE, SILENCE
from offsetguard.store import incidents, silences
from offsetguard.store.database import current_time, writing
from offsetguard.views.incident import AskedIncident
from offsetguard.views.incidents import WantedIncidents
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
from offsetguard_airflow.web.rendering import address_of, given_as, lead_to_folder, unless_unchanged, words_for
from offsetguard_airflow.web.rights import DAG_THAT_MAKES_THEM, RESOURCE, MayAct
from offsetguard_airflow.web.workspace import our_engine, views_of_workspace

SCOPES = ("incident", "group", "rule")


def routes(may_write: list[object]) -> APIRouter:
    """Return the routes; `may_write`: what those that change something depend on beside the login."""
    router = APIRouter()
    router.get("")(lead_to_folder)
    router.get("/", dependencies=[Depends(unless_unchanged)])(show_list)
    router.get("/{incident_id}")(show_incident)
    router.post("/{incident_id}", dependencies=may_write)(take_form)  # type: ignore[arg-type]
    return router


def show_list(request: Request, wanted: Annotated[WantedIncidents, Query()]) -> Response:
    """Show what the address asks for: without anything what is open, worst first, and then what ended last."""
    with views_of_workspace() as views:
        view = views.incidents(wanted, words_for(request))
    return given_as(request, "incidents.html.j2", view, view.incidents)


def show_incident(request: Request, incident_id: str, user: GetUserDep, may_act: MayAct) -> Response:
    """Show all that is known of one incident, with the forms for who may use them."""
    words = words_for(request)
    with views_of_workspace() as views:
        view = views.incident(AskedIncident(incident_id=_known(incident_id)), words)
    if view.incident_id != incident_id:  # the start of it
        return RedirectResponse(address_of(view.incident_id, **request.query_params), status.HTTP_303_SEE_OTHER)
    return given_as(
        request,
        "incident.html.j2",
        view,
        view.timeline,
        forms={"acknowledge": ACKNOWLEDGE, "silence": SILENCE, "token": token_for(user), "spans": SPANS},
        may_act=may_act,
        user_name=user.get_name(),
        missing={"dag_id": DAG_THAT_MAKES_THEM, "resource": RESOURCE},
    )


def take_form(request: Request, incident_id: str, form: Form, user: GetUserDep) -> Response:
    """Acknowledge or silence an incident, or end a silence, in the name of the user; and show it again."""
    check_token(form, user)
    author, comment = user.get_name(), comment_of(form)
    with writing(our_engine()) as session:
        incident = _incident(session, incident_id)
        try:
            _act(session, incident, form, author=author, comment=comment, now=current_time(session))
        except SilenceError as error:
            raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, str(error)) from error
    again = f"{incident_id}?{request.url.query}" if request.url.query else incident_id  # in the same language
    return RedirectResponse(f"{again}#state", status.HTTP_303_SEE_OTHER, headers=FORM_HEADERS)


def _act(
    session: Session, incident: Incident, form: dict[str, str], *, author: str, comment: str, now: datetime
) -> None:
    match form.get("do"):
        case "acknowledge":
            silences.acknowledge(session, incident, author=author, comment=comment, now=now)
        case "silence" if form.get("span") in SPANS and form.get("scope") in SCOPES:
            ends_at = now + timedelta(milliseconds=SPANS[form["span"]])
            matchers = _matchers(incident.shown_as, form["scope"])
            silences.add(session, Silence(matchers, author, comment, now, ends_at, now))
        case "expire":
            silences.expire(session, silence_number(form), now=now)
        case _:
            raise not_ours()


def _matchers(subject: Subject, scope: str) -> Matchers:
    """Return what is silenced: the incident's subject, its whole group, or its rule in the whole cluster."""
    if scope == "rule":
        return Matchers(cluster=literal(subject.cluster), rule=literal(subject.rule_id))
    if scope == "group" and subject.consumer_group is not None:
        return Matchers(cluster=literal(subject.cluster), consumer_group=literal(subject.consumer_group))
    return Matchers.of(subject)


def _incident(session: Session, incident_id: str) -> Incident:
    found = incidents.by_id(session, [incident_id]).get(_known(incident_id))
    if found is None or found.is_pending:
        raise _nobody_knows()
    return found


def _known(incident_id: str) -> str:
    if not (incident_id.isascii() and incident_id.isalnum() and len(incident_id) <= 32):  # no NUL of a URL
        raise _nobody_knows()
    return incident_id


def _nobody_knows() -> HTTPException:
    return HTTPException(status.HTTP_404_NOT_FOUND, "there is no incident of this name (any more)")
