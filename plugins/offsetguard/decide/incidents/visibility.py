"""What keeps an incident open although nothing is found: facts that were not seen, rules that could not tell.

What concerns the whole cluster (a log that nobody reads, say) is not repeated beside every finding, nor is what lies
behind brokers that were not seen: the finding about those brokers says so for all.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set

from offsetguard.catalogue import Sentence
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.unseen import OF_THE_ROUND
from offsetguard.judge.rule import Finding, Rule
from offsetguard.model.incident import Incident, Subject
from offsetguard.model.verdicts import CannotTell
from offsetguard.tables.group_facts import GroupFacts


class Unanswered:
    """What the rules could not tell in one interval, by rule and by group."""

    def __init__(self, cannot_tell: Iterable[CannotTell] = (), unseen_broker_names: Set[str] = frozenset()) -> None:
        """Index the entries once: thousands of incidents may ask."""
        self._unseen_broker_names = unseen_broker_names
        self._by_rule: defaultdict[tuple[str, str | None], list[CannotTell]] = defaultdict(list)
        self._by_group: defaultdict[str | None, list[CannotTell]] = defaultdict(list)
        for entry in cannot_tell:
            self._by_rule[entry.rule_id, entry.consumer_group].append(entry)
            self._by_group[entry.consumer_group].append(entry)

    def beside(self, finding: Finding) -> tuple[CannotTell, ...]:
        """Return what readers of a finding should know: entries about its group, or about brokers that it is on."""
        own = self._by_group[finding.consumer_group] if finding.consumer_group is not None else []
        brokers = finding.all_broker_names - self._unseen_broker_names
        behind = [entry for entry in self._by_group[None] if entry.broker_names & brokers]
        return (*own, *behind)

    def hides(self, incident: Incident) -> str | None:
        """Return why the incident's own rule could not see whether it goes on; None when it could."""
        subject, brokers = incident.subject, incident.evidence.broker_names
        for group in dict.fromkeys((subject.consumer_group, None)):  # in order: what is kept is the nearer reason
            for entry in self._by_rule.get((incident.shown_by, group), ()):
                if not (entry.broker_names and brokers) or entry.broker_names & brokers:
                    return Sentence("cannot_be_told", because=entry.because)
        return None


_GROUP_ROWS = frozenset({"queues", "groups"})
# what events and logs tell of a group does not need its rows: a broadcasting group has none
_TOO_LITTLE_SEEN = ("rounds_missed", "growth_unknown")  # window rules
_EVIDENCE_ELSEWHERE = frozenset({"offset_moves", "log_lines"})


class GroupRows:
    """The group rows of an interval by consumer group and topic."""

    def __init__(self, facts: IntervalFacts) -> None:
        """Index the rows once: thousands of incidents may ask."""
        self._by_group: dict[str, dict[str, GroupFacts]] = {}
        for group in facts.groups:
            self._by_group.setdefault(group.consumer_group, {})[group.topic] = group
        self._too_little_seen = {
            (queue.consumer_group, queue.message_queue.topic) for queue in facts.queues if _is_too_little_seen(queue)
        }

    def too_little_was_seen(self, row: GroupFacts) -> bool:
        """Whether what was seen of a queue of the row does not show how it stands."""
        return (row.consumer_group, row.topic) in self._too_little_seen

    def of(self, subject: Subject) -> Sequence[GroupFacts]:
        """Return the rows of the subject's group: of its topic, or of all topics when it has none."""
        topics = self.topics_of(subject)
        if subject.topic is None:
            return tuple(topics.values())
        return (topics[subject.topic],) if subject.topic in topics else ()

    def topics_of(self, subject: Subject) -> Mapping[str, GroupFacts]:
        """Return all rows of the subject's group by topic."""
        return self._by_group.get(subject.consumer_group or "", {})


def _is_too_little_seen(queue: QueueFacts) -> bool:
    """Whether it is not known how a queue stands; sums of its group are over what is known, and lack it.

    `unknown_queue_count` has those whose end was not read, not those of which the commit or the beginning was not.
    """
    not_read = queue.window.unknown_count > 0 or (queue.offsets.lag is not None and queue.offsets.lost is None)
    return not_read or (queue.verdict is not None and queue.verdict.rule in _TOO_LITTLE_SEEN)


def unseen_because(incident: Incident, rule: Rule | None, facts: IntervalFacts, rows: GroupRows) -> str | None:
    """Return why nothing can be said about an incident that no rule found any more; None = it could be seen.

    Anything that might hide it keeps it open: an incident that ends by mistake tells people to go home.
    """
    if rule is not None and OF_THE_ROUND.intersection(rule.needs):
        hidden_by_all = facts.cluster_unseen and "cluster_unseen" not in rule.needs
        return Sentence("no_name_server_answered") if hidden_by_all else None
    if facts.cluster_unseen:
        return Sentence("no_name_server_answered")
    if hidden := sorted(incident.evidence.broker_names & facts.unseen_broker_names):
        return Sentence("gave_no_offsets", brokers=", ".join(hidden))
    if rule is not None and "offset_moves" in rule.needs and (missed := _missed_events(incident, facts)):
        return Sentence("events_not_read_to_the_end", broker=missed)
    if rule is None or incident.subject.consumer_group is None:
        return None
    unseen = _unseen_group(incident, rule, facts, rows) if _needs_group_rows(rule) else None
    return unseen or (_unasked(incident, rows) if rule.from_clients else None)


def _needs_group_rows(rule: Rule) -> bool:
    return bool(_GROUP_ROWS.intersection(rule.needs)) and not _EVIDENCE_ELSEWHERE.intersection(rule.needs)


def _missed_events(incident: Incident, facts: IntervalFacts) -> str | None:
    """Return a master of the incident whose events may be missing: they are read last in a round.

    A refusal of something else lasts, and must not keep incidents open for ever.
    """
    for gap in facts.gaps:
        concerns_events = "OFFSET_MOVED_EVENT" in gap.what or gap.outcome != "refused"
        if gap.broker_id == 0 and gap.broker_name in incident.evidence.broker_names and concerns_events:
            return gap.broker_name
    return None


def _unseen_group(incident: Incident, rule: Rule, facts: IntervalFacts, rows: GroupRows) -> str | None:
    found = rows.of(incident.subject)
    if not found:
        missing = sorted(facts.unseen_broker_names)
        return Sentence("may_be_on_unseen", brokers=", ".join(missing)) if missing else None
    for row in found:
        if rows.too_little_was_seen(row):
            return Sentence("too_little_seen", topic=row.topic)
        if row.unknown_queue_count:
            return Sentence("queues_not_read", unknown=row.unknown_queue_count, all=row.queue_count, topic=row.topic)
        if row.never_committed_queue_count == row.queue_count:
            continue  # there is nothing to read: its committed offsets are gone
        for field in rule.group_needs:
            if getattr(row, field) is None:
                return Sentence("figure_not_known", figure=field, consumer_group=row.consumer_group, topic=row.topic)
    return None


def _unasked(incident: Incident, rows: GroupRows) -> str | None:
    """Return which clients did not say what they do, of a group that is not provably well: of others none is asked.

    Clients of POP groups that speak gRPC never say it.
    """
    for row in rows.of(incident.subject):
        told, online = row.told_client_count, row.online_client_count
        is_asked = row.suspect_reason is not None and row.consumption != "pop" and online != 0
        if is_asked and (told is None or (online is not None and told < online)):
            return Sentence("clients_not_asked", told=told or 0, online=online, consumer_group=row.consumer_group)
    return None


def resolution(incident: Incident, rule: Rule | None, rows: GroupRows) -> str:
    """Say how an incident ended that could be seen and was not found."""
    subject = incident.subject
    if rule is None:
        return Sentence("rule_is_gone")
    if subject.consumer_group is None or not _needs_group_rows(rule):
        return rule.recovered
    if not rows.topics_of(subject):
        return Sentence("group_is_gone", consumer_group=subject.consumer_group)
    found = rows.of(subject)
    if not found:
        return Sentence("topic_is_gone", consumer_group=subject.consumer_group, topic=subject.topic)
    if all(row.never_committed_queue_count == row.queue_count for row in found):
        return Sentence("commits_were_removed", consumer_group=subject.consumer_group)
    return rule.recovered
