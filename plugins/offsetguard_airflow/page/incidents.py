"""Incidents behind Airflow's login: the list, one incident, and forms to acknowledge and to silence it.

What is done stands under the name that Airflow knows.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from urllib.parse import urlencode

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException, status
from fastapi.responses import FileResponse, RedirectResponse, Response
from sqlalchemy.orm import Session

from offsetguard.config.file import config_in_use
from offsetguard.config.workspace import Workspace
from offsetguard.deliver.messages.wording import harmless_view
from offsetguard.model.errors import ConfigError, SilenceError
from offsetguard.model.incident import Incident, Subject
from offsetguard.model.silence import Matchers, Silence, literal
from offsetguard.model.views import ACKNOWLEDGE, SILENCE
from offsetguard.store import incidents, notifications, silences
from offsetguard.store import incidents as store
from offsetguard.store.database import current_time, reading, writing
from offsetguard_airflow.web.forms import FORM_HEADERS
from offsetguard_airflow.web.incident_views import IncidentList, incident_page, listed, silence_line
from offsetguard_airflow.web.posted_forms import Form, check_token, not_ours, silence_number, token_for
from offsetguard_airflow.web.rendering import TEMPLATES, html, lead_to_folder, our_engine

OPEN_SHOWN, RESOLVED_SHOWN = 500, 50
SPANS = {"30 min": 30, "1 h": 60, "2 h": 120, "8 h": 480, "24 h": 1440, "3 d": 4320, "7 d": 10_080}  # minutes
SCOPES = ("incident", "group", "rule")
_MAX_COMMENT = 1_000


def routes(may_write: list[object]) -> APIRouter:
    """Return the routes; `may_write`: what those that change something depend on beside the login."""
    router = APIRouter()
    router.get("")(lead_to_folder)
    router.get("/")(show_list)
    router.get("/copy.js")(give_script)
    router.get("/{incident_id}")(show_incident)
    router.post("/{incident_id}", dependencies=may_write)(take_form)  # type: ignore[arg-type]
    return router


def show_list() -> Response:
    """Show what is open, worst first, what ended lately, and what is silenced."""
    with reading(our_engine()) as session:
        now = current_time(session)
        shown = store.listed(session, store.Which(), over=False, limit=OPEN_SHOWN)
        over = store.listed(session, store.Which(), over=True, limit=RESOLVED_SHOWN)
        acknowledged = silences.acknowledgements_of(session, [one.incident_id for one in shown])
        active = silences.active(session, now)
        page = IncidentList(
            open=tuple(listed(one, acknowledged.get(one.incident_id), _about(one, active), now) for one in shown),
            open_count=store.count(session, store.Which(), over=False),
            resolved=tuple(listed(one, None, (), now) for one in over),
            silences=tuple(silence_line(one) for one in active),
        )
    return html("incidents.html.j2", page=harmless_view(page))


def give_script() -> Response:
    """Give the script of the pages; they are complete without it."""
    return FileResponse(TEMPLATES / "copy.js", headers=FORM_HEADERS, media_type="text/javascript; charset=utf-8")


def show_incident(incident_id: str, user: GetUserDep) -> Response:
    """Show all that is known of one incident, with the forms."""
    with reading(our_engine()) as session:
        now = current_time(session)
        incident = _incident(session, incident_id)
        page = incident_page(
            incident,
            silences.acknowledgements_of(session, [incident_id]).get(incident_id),
            _about(incident, silences.active(session, now)),
            notifications.recipients_of(session, incident),
            incidents.events_of(session, incident_id),
            now=now,
            console_url=_console_url(incident.subject),
        )
    shown = {"acknowledge": ACKNOWLEDGE, "silence": SILENCE, "token": token_for(user), "spans": SPANS}
    subject = incident.subject
    about = {"cluster": subject.cluster, "consumer_group": subject.consumer_group}
    group_address = f"../fleet/group?{urlencode(about)}" if subject.consumer_group else None
    return html("incident.html.j2", page=harmless_view(page), forms=shown, group_address=group_address)


def take_form(incident_id: str, form: Form, user: GetUserDep) -> Response:
    """Acknowledge or silence an incident, or end a silence, in the name of the user; and show it again."""
    check_token(form, user)
    author, comment = user.get_name(), form.get("comment", "")[:_MAX_COMMENT]
    with writing(our_engine()) as session:
        incident = _incident(session, incident_id)
        try:
            _act(session, incident, form, author=author, comment=comment, now=current_time(session))
        except SilenceError as error:
            raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, str(error)) from error
    return RedirectResponse(incident_id, status.HTTP_303_SEE_OTHER, headers=FORM_HEADERS)


def _act(
    session: Session, incident: Incident, form: dict[str, str], *, author: str, comment: str, now: datetime
) -> None:
    match form.get("do"):
        case "acknowledge":
            silences.acknowledge(session, incident, author=author, comment=comment, now=now)
        case "silence" if form.get("span") in SPANS and form.get("scope") in SCOPES:
            ends_at = now + timedelta(minutes=SPANS[form["span"]])
            matchers = _matchers(incident.subject, form["scope"])
            silences.add(session, Silence(matchers, author, comment.strip(), now, ends_at, now))
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


def _about(incident: Incident, active: list[Silence]) -> list[Silence]:
    return [silence for silence in active if silence.matches(incident)]


def _incident(session: Session, incident_id: str) -> Incident:
    found = store.by_id(session, [incident_id]).get(incident_id) if incident_id.isalnum() else None  # no NUL of a URL
    if found is None or found.is_pending:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no incident of this name (any more)")
    return found


def _console_url(subject: Subject) -> str | None:
    """Return the group's address in the console, as the configuration says now; a broken one has none."""
    try:
        delivery = config_in_use(Workspace.from_environment()).config.delivery
    except ConfigError:
        return None
    return delivery.console_address(subject.cluster, subject.consumer_group, subject.topic)
