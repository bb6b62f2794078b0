"""What mutes an incident: open trouble above it, silences, quiet hours, maintenance. Pure.

Inhibition: open trouble of a broker or a cluster mutes the incidents below it. Pure; what a rule mutes is its own data
(`Rule.mutes`), and rules that come first are higher up. Those that mute within a topic stand below all others.

Source: prometheus/alertmanager, inhibit/inhibit.go. Unlike there, what is muted is counted in the message of what
mutes it, and who was notified before it was muted still is of its end.

Silencing: which of the silences that are active mutes an incident. Pure.

Time windows of a route: quiet hours by the clock on its wall, and maintenance between two moments. Pure.

Quiet hours are spans between two instants. Each begins on one of its days at `from` and ends at the next `to` on the
clock of the zone, so a night over midnight belongs to the evening on which it began. Where clocks are put back and a
time comes twice, the first of the two counts for both ends; a time that is left out when they are put forward lies as
much later as the clocks were moved.
Source: Alertmanager's timeinterval/timeinterval.go has neither spans over midnight nor a word on clock changes.
"""

import fnmatch
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from offsetguard.catalogue import Sentence
from offsetguard.config.routes import Maintenance, QuietHours
from offsetguard.decide.incidents.history import summary_of
from offsetguard.judge.registry import RULES
from offsetguard.judge.rule import Mutes, Scope
from offsetguard.model.incident import Incident
from offsetguard.model.notification import Mute, MuteReason, Silence
from offsetguard.model.verdicts import Severity

_Level = tuple[bool, int]  # in a topic only, place: the lowest is the highest up


def can_mute(incident: Incident) -> bool:
    """Whether an incident is of a kind that mutes others."""
    return _level(incident.shown_by) is not None


class Inhibitors:
    """The open incidents that mute others, highest first."""

    def __init__(self, open_incidents: Iterable[Incident]) -> None:
        """Find them once: thousands of incidents may ask."""
        found: list[tuple[_Level, Mutes, Incident]] = []
        self._mutes: dict[str, Mute] = {}  # by the incident that mutes: it says the same to thousands
        self._of_topics: dict[tuple[str, str | None, str | None], tuple[_Level, Mutes, Incident]] = {}
        for incident in open_incidents:
            rule, level = RULES.get(incident.shown_by), _level(incident.shown_by)
            if rule is None or rule.mutes is None or level is None or not _mutes_at_all(incident, rule.mutes):
                continue
            if rule.mutes.scope is Scope.TOPIC:  # there may be thousands, and each concerns few
                self._of_topics[_topic_of(incident)] = (level, rule.mutes, incident)
            else:
                found.append((level, rule.mutes, incident))
        self._found = sorted(found, key=lambda entry: (entry[0], entry[2].incident_id))

    def mute(self, incident: Incident) -> Mute | None:
        """Return what mutes an open incident; the highest, when several would."""
        rule = RULES.get(incident.shown_by)
        if rule is not None and rule.never_muted:
            return None
        own_level = _level(incident.shown_by)
        of_topic = self._of_topics.get(_topic_of(incident))
        for level, mutes, source in (*self._found, *([] if of_topic is None else [of_topic])):
            if own_level is not None and own_level <= level:
                return None
            if _is_below(incident, source, mutes):
                muting = source.incident_id
                if muting not in self._mutes:
                    self._mutes[muting] = Mute(MuteReason.INHIBITION, muting, summary_of(source))
                return self._mutes[muting]
        return None


def _level(rule_id: str) -> _Level | None:
    """Return how low a rule's incidents stand that mute others; None: they mute nothing."""
    rule = RULES.get(rule_id)
    return None if rule is None or rule.mutes is None else (rule.mutes.scope is Scope.TOPIC, rule.place)


def _mutes_at_all(source: Incident, mutes: Mutes) -> bool:
    """Only what somebody is notified of may mute; trouble that is no more than INFO goes to nobody.

    What people keep back is left out by the audience, which knows to whom it would go.
    """
    said = not mutes.variants or source.evidence.variant in mutes.variants
    return said and source.is_open and source.evidence.severity.is_sent


def _is_below(incident: Incident, source: Incident, mutes: Mutes) -> bool:
    if incident.subject.cluster != source.subject.cluster:
        return False
    if mutes.rules and incident.shown_by not in mutes.rules:
        return False
    if mutes.scope is Scope.CLUSTER:
        return True
    if mutes.scope is Scope.TOPIC:
        return _topic_of(incident) == _topic_of(source)
    brokers = incident.evidence.broker_names
    return bool(brokers) and brokers <= source.evidence.broker_names


def _topic_of(incident: Incident) -> tuple[str, str | None, str | None]:
    subject = incident.subject
    return subject.cluster, subject.consumer_group, subject.topic


def silence_mute(incident: Incident, silences: Iterable[Silence], now: datetime) -> Mute | None:
    """Return the mute of the first silence, in the order given, that is active at `now` and matches."""
    for silence in silences:
        if silence.active_at(now) and silence.matches(incident):
            text = Sentence("muted_by_silence", author=silence.author, comment=silence.comment)
            return Mute(MuteReason.SILENCE, "" if silence.id is None else str(silence.id), text)
    return None


_ONE_DAY = timedelta(days=1)


def quiet_until(windows: Iterable[QuietHours], zone: tzinfo, severity: Severity, now: datetime) -> datetime | None:
    """Return until when (UTC) a severity waits; None when it may be sent at `now` (aware)."""
    ends = [
        end
        for window in windows
        if severity.rank < window.severity_below.rank
        for end in (_end_of(window, zone, now),)
        if end is not None
    ]
    return max(ends, default=None)


def quiet_mute(incident: Incident, windows: Iterable[QuietHours], zone: tzinfo, now: datetime) -> Mute | None:
    """Return the mute of quiet hours at `now`."""
    until = quiet_until(windows, zone, incident.evidence.severity, now)
    if until is None:
        return None
    return Mute(MuteReason.QUIET_HOURS, until.isoformat(), Sentence("muted_by_quiet_hours", until=until))


def maintenance_mute(incident: Incident, windows: Iterable[Maintenance], at: datetime) -> Mute | None:
    """Return the mute of the first maintenance window that covers `at`: the start of the interval that is judged.

    A window with the pattern `*` for groups also covers what is about no group in particular.
    """
    subject = incident.subject
    for window in windows:
        if not window.starts_at <= at < window.ends_at:
            continue
        group = subject.consumer_group
        fits = window.consumer_group == "*" if group is None else fnmatch.fnmatchcase(group, window.consumer_group)
        if fits and fnmatch.fnmatchcase(subject.cluster, window.cluster):
            why = window.comment
            text = Sentence("muted_by_maintenance_for", comment=why) if why else Sentence("muted_by_maintenance")
            return Mute(MuteReason.MAINTENANCE, window.starts_at.isoformat(), text)
    return None


def _end_of(window: QuietHours, zone: tzinfo, now: datetime) -> datetime | None:
    """Return the end of the span that `now` lies in."""
    today = now.astimezone(zone).date()
    for day in (today - _ONE_DAY, today):
        if day.weekday() not in window.weekdays:
            continue
        ends_on = day if window.ends > window.starts else day + _ONE_DAY
        starts, ends = _instant(day, window.starts, zone), _instant(ends_on, window.ends, zone)
        if starts <= now < ends:
            return ends
    return None


def _instant(day: date, at: time, zone: tzinfo) -> datetime:
    # through UTC: two moments of one zone would be compared by their clocks, whatever the offset
    return datetime.combine(day, at, zone).astimezone(UTC)
