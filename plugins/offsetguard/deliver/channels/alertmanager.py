"""Alertmanager: open incidents are posted as Prometheus posts its alerts, which is state, again and again.

Goal: what an Alertmanager shows as firing is open here, whichever of the two was away meanwhile.
Plan: all that is open is posted each minute, and ends by itself once nothing was posted for `silent_after_ms`: then
the heartbeat says that OffsetGuard stands still. What the Alertmanager has of ours and is over, or has other labels by
now (worse, another team), is ended at once. What ended lately is posted once more each time: an Alertmanager that was
restarted has forgotten alerts, not whom it told of them. Where nobody else is told, messages are written to it, too,
as to any channel: each counts as sent once what it is about was posted, so that the outbox, incidents' pages and
escalation know whether it was.
Not here: nothing is kept, so deliverers may come and go. Groups, repeats and who is told are the Alertmanager's.
Source: https://github.com/prometheus/alertmanager/blob/v0.28.1/api/v2/openapi.yaml, and `resolvedRetention` in
https://github.com/prometheus/prometheus/blob/v3.0.0/rules/alerting.go.
"""

import base64
import http
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import quote

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from offsetguard.catalogue.text import Locale, format_duration
from offsetguard.config import Config
from offsetguard.config.routes import Delivery
from offsetguard.deliver.channels.channel import LIMIT_S, Connection, Handover, Receipt, Transport, Unavailable
from offsetguard.deliver.lane_service import Clock
from offsetguard.deliver.messages.wording import harmless, harmless_document
from offsetguard.deliver.one_request import Answer, NoAddress, ask
from offsetguard.judge.incident_words import IncidentWords
from offsetguard.model.errors import DeliveryError
from offsetguard.model.incident import EventKind, Incident, IncidentEvent
from offsetguard.model.notification import Declared
from offsetguard.model.views import MessageView, incident_url
from offsetguard.store import incidents, notifications
from offsetguard.store.database import database_time, reading
from offsetguard.store.database_errors import what_failed
from offsetguard.store.models import OutboxRow

CHANNEL = Declared(
    name="alertmanager",
    receivers="alertmanagers",
    meaning="Airflow connections of Alertmanagers; each gets all that is open",
    title="Alertmanager",
    title_zh="Alertmanager",
    takes_all=True,
)

ENDED_AGAIN = timedelta(minutes=15)  # for so long Prometheus posts that an alert is over
CLOCKS_DIFFER = timedelta(minutes=1)  # by so much, and alerts end there too early or too late
AT_ONCE = 256  # alerts of one request, as Prometheus has it
MOST_BYTES = 256 * 1024 * 1024  # of the alerts of a cluster: 100,000
ID = "incident_id"  # the annotation by which an alert is ours
_SAID: dict[int, str] = {
    http.HTTPStatus.UNAUTHORIZED: "refuses the login: correct login and password of its connection",
    http.HTTPStatus.FORBIDDEN: "refuses the login: correct login and password of its connection",
    http.HTTPStatus.NOT_FOUND: "has no API v2 there: write into its host all that stands before /api/v2",
}
Alert = dict[str, Any]


class Shown(NamedTuple):
    """What an Alertmanager holds for firing, and what time it is there; None: it does not say."""

    alerts: list[Alert]
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Alertmanager(Transport):
    """One Alertmanager; `name` is the id of its Airflow connection."""

    name: str
    url: str
    delivery: Delivery
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 10.0
    proxy: str | None = field(default=None, repr=False)

    LANES: ClassVar = 4
    CONNECTION_NEEDS: ClassVar = "host"
    CONNECTION_ADVICE: ClassVar = (
        "create one of type generic with the address as host, http://alertmanager:9093 "
        "(delivery.alertmanagers in the configuration names it)"
    )

    @classmethod
    def opened(cls, connection: Connection, delivery: Delivery) -> Self:
        """Open one by a connection of type `generic` or `http`.

        Host: the address up to `/api/v2`; login and password where it asks for them, a password alone is a bearer
        token; extra `timeout`, `proxy`.
        """
        host = connection.host or ""
        base = host if "://" in host else f"{connection.schema or 'http'}://{host}"
        base = f"{base}:{connection.port}" if connection.port else base.rstrip("/")
        headers = {"Content-Type": "application/json"}
        if connection.login:
            login = base64.b64encode(f"{connection.login}:{connection.password or ''}".encode()).decode()
            headers["Authorization"] = f"Basic {login}"
        elif connection.password:
            headers["Authorization"] = f"Bearer {connection.password}"
        proxy = connection.extra.get("proxy") or None
        return cls(connection.conn_id, f"{base}/api/v2/alerts", delivery, headers, connection.timeout_s, proxy)

    def deliver(self, message: OutboxRow, handover: Handover) -> Receipt:
        """Post what a message is about as it is by now; what was posted before stays one alert."""
        view = message.view
        if not isinstance(view, MessageView):
            raise TypeError(f"a {type(view).__name__} is for people only")
        with reading(handover.engine) as session:
            found = incidents.by_id(session, {one.incident_id for one in (*view.firing, *view.resolved)}).values()
            there = incidents.open_incidents(session, view.cluster) if any(one.is_over for one in found) else ()
            back = {(one.shown_as, one.evidence.severity) for one in there if one.is_open}  # the alerts that ended
        locale, ahead = Locale.of(view.language, view.time_zone), handover.now + _lasts(self.delivery)
        alerts = [
            _alert(one, view.team, locale, self.delivery, one.ended_at or ahead)
            for one in found
            if one.evidence.severity.is_sent and not (one.is_over and (one.shown_as, one.evidence.severity) in back)
        ]
        self.post(alerts)
        if not alerts:  # a test: it is asked, and nothing fires
            self.shown(view.cluster)
        return Receipt(f"alertmanager {self.name}, {len(alerts)} alerts")

    def post(self, alerts: Sequence[Alert]) -> None:
        """Post alerts; raises DeliveryError, after which the next minute tries all of them again."""
        for start in range(0, len(alerts), AT_ONCE):
            self._asked("POST", self.url, json.dumps(alerts[start : start + AT_ONCE]).encode())

    def shown(self, cluster: str) -> Shown:
        """Return the alerts of a cluster that it holds for firing, with the id of ours; raises DeliveryError."""
        matcher = f"cluster={json.dumps(cluster, ensure_ascii=False)}"
        answer = self._asked("GET", f"{self.url}?filter={quote(matcher, safe='')}")
        try:
            found = json.loads(answer.body)
            alerts = [{**one, "labels": {**one["labels"]}, ID: one["annotations"].get(ID)} for one in found]
        except (ValueError, TypeError, KeyError, AttributeError):
            raise self._refused("does not answer as an Alertmanager does; a proxy may stand in between") from None
        return Shown(alerts, _date_of(answer))

    def _asked(self, method: str, url: str, body: bytes | None = None) -> Answer:
        try:
            answer = ask(
                method,
                url,
                body=body,
                headers=self.headers,
                limit_s=min(self.timeout_s, LIMIT_S),
                most_bytes=MOST_BYTES,
                proxy=self.proxy,
            )
        except NoAddress:
            raise self._refused("has no address of the form http://host:9093: correct its connection") from None
        except OSError as error:
            raise self._refused(f"cannot be reached: {error}") from None
        if answer.status == http.HTTPStatus.OK:
            return answer
        said = _SAID.get(answer.status) or f"refused the alerts: {answer.body[:300].decode('utf-8', 'replace')}"
        if answer.is_redirect:
            said = "redirects: write where it leads to into its connection"
        raise self._refused(f"{said} (HTTP {answer.status})")

    def _refused(self, said: str) -> DeliveryError:
        return DeliveryError(f"Alertmanager {self.name!r} {harmless(said, 400)}", permanent=False)


def post_alerts(engine: Engine, config: Config, to: Sequence[Alertmanager | Unavailable]) -> tuple[str, ...]:
    """Post to each, side by side, what is open in all clusters and what ended lately; returns why not, a line each."""
    if not to:
        return ()
    try:
        clock = Clock(database_time(engine))
        now = clock.now()
        alerts = {cluster: list(_alerts_of(engine, config, cluster, now)) for cluster in config.clusters}
    except SQLAlchemyError as error:
        return (f"no alerts were posted, since the database did not answer: {what_failed(error)}",)
    with ThreadPoolExecutor(len(to), "alerts") as pool:
        said = pool.map(lambda one: _posted(one, engine, config, alerts, clock), to)
        return tuple(one for one in said if one is not None)


def _posted(
    to: Alertmanager | Unavailable,
    engine: Engine,
    config: Config,
    alerts: Mapping[str, list[Alert]],
    clock: Clock,
) -> str | None:
    wrong = None
    if isinstance(to, Unavailable):
        return f"{to.reason}; no alerts are posted there"
    try:
        to.post([one for some in alerts.values() for one in some])
        for cluster, posted in alerts.items():
            labels = {_identity(one) for one in posted}
            shown = to.shown(cluster)
            if shown.at is not None:
                ahead = shown.at - clock.now()
                wrong = _wrong_clock(ahead, _lasts(config.delivery))
            left = [one for one in shown.alerts if _identity(one) not in labels and one[ID]]
            to.post(list(_ended(engine, config, left, clock.now())))
    except DeliveryError as error:
        return str(error)
    except SQLAlchemyError as error:
        return f"Alertmanager {to.name!r}: what is over was not ended: {what_failed(error)}"
    return None if wrong is None else f"Alertmanager {to.name!r}: {wrong}"


def _wrong_clock(ahead: timedelta, lasts: timedelta) -> str | None:
    """Return what a clock there spoils that is so far ahead of the database's; `lasts`: an alert that is posted."""
    if abs(ahead) < CLOCKS_DIFFER:
        return None
    off = format_duration(round(abs(ahead) / timedelta(minutes=1)) * 60_000)
    if ahead < timedelta(0):
        what = f"its clock is {off} behind the database's, so that what is over ends there so much too late"
    else:
        when = "at once" if ahead >= lasts else "so much too early once posting stops"
        what = f"its clock is {off} ahead of the database's, so that what is open ends there {when}"
    return f"{what}: set both by NTP"


def _date_of(answer: Answer) -> datetime | None:
    try:
        at = parsedate_to_datetime(answer.headers["date"])
    except (KeyError, ValueError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _alerts_of(engine: Engine, config: Config, cluster: str, now: datetime) -> Iterator[Alert]:
    """Give what is open and told, or would be but for the wait for more; of that also what ended lately."""
    ahead = now + _lasts(config.delivery)
    with reading(engine) as session:
        firing: set[frozenset[tuple[str, str]]] = set()  # an alert that comes back is one with that which ended
        last = notifications.of_cluster(session, cluster).values()
        told = {incident_id for one in last for incident_id in one.firing}
        muted = {incident_id for one in last for incident_id in one.muted} - told
        for one in incidents.open_incidents(session, cluster):
            if one.is_open and one.evidence.severity.is_sent and one.incident_id not in muted:
                alert = _alert_of(one, config, ahead)
                firing.add(_identity(alert))
                yield alert
        for one in incidents.resolved_since(session, cluster, now - ENDED_AGAIN):
            alert = _alert_of(one, config, one.ended_at or now)
            if _identity(alert) not in firing and _was_posted(one, incidents.events_of(session, one.incident_id)):
                yield alert


def _ended(engine: Engine, config: Config, left: Sequence[Alert], now: datetime) -> Iterator[Alert]:
    """Give what an Alertmanager shows and is over here, or has other labels, as ended now; what is not ours stays."""
    with reading(engine) as session:
        found = incidents.by_id(session, {one[ID] for one in left})
    for one in left:
        incident = found.get(one[ID])
        if incident is None:
            continue
        alert = _alert_of(incident, config, now)
        if incident.is_over or _identity(alert) != _identity(one):
            yield {**alert, "labels": one["labels"], "startsAt": one["startsAt"]}


def _was_posted(incident: Incident, events: Iterable[IncidentEvent]) -> bool:
    """Whether something that is over fired there: it was not muted from its start to its end."""
    kinds = {one.kind for one in events}
    heard = EventKind.MUTED not in kinds or not kinds.isdisjoint({EventKind.UNMUTED, EventKind.NOTIFIED})
    return heard and incident.evidence.severity.is_sent


def _alert_of(incident: Incident, config: Config, ends_at: datetime) -> Alert:
    about, severity = incident.shown_as, incident.evidence.severity
    team = config.team_of(about.cluster, about.consumer_group)
    route = config.route(
        team, about.cluster, rule_id=about.rule_id, severity=severity, consumer_group=about.consumer_group
    )
    return _alert(incident, team, Locale.of(route.language.value, route.time_zone), config.delivery, ends_at)


def _alert(incident: Incident, team: str, locale: Locale, delivery: Delivery, ends_at: datetime) -> Alert:
    about, severity = incident.shown_as, incident.evidence.severity
    said = IncidentWords(incident, locale)
    texts = {"summary": said.summary, "cause": said.cause, "do_next": said.do_next, "commands": said.commands}
    safe = harmless_document({**texts, "resolution": said.resolution or ""})
    labels = {
        "alertname": about.rule_id,
        "cluster": about.cluster,
        "consumer_group": about.consumer_group,
        "topic": about.topic,
        "severity": severity.value,
        "team": team,
    }
    annotations = {
        "summary": safe["summary"],
        "description": safe["cause"],  # the name that templates look for
        "do_next": safe["do_next"],
        "commands": "\n".join(safe["commands"]),
        "resolution": safe["resolution"],
        ID: incident.incident_id,
    }
    page = delivery.page_url
    return {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {name: value for name, value in annotations.items() if value},
        "startsAt": incident.first_seen_at.isoformat(),
        "endsAt": max(ends_at, incident.first_seen_at).isoformat(),
        **({} if page is None else {"generatorURL": incident_url(page, incident.incident_id)}),
    }


def _lasts(delivery: Delivery) -> timedelta:
    """Return how long an alert fires that nobody posts again."""
    return timedelta(milliseconds=delivery.silent_after_ms)


def _identity(alert: Alert) -> frozenset[tuple[str, str]]:
    return frozenset(alert["labels"].items())
