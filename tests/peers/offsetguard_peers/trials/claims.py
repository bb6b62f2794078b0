"""What is said, compared with what is so: a checker that reads sentences as people do, and knows what was staged.

    checker = Checker(truth)
    checker.read("mail 3", mail.text, Round(began, ended))  # or the subject and the text below it
    checker.false       # sentences that were not so: none should be there

Every line of a mail, a Slack message or a page is compared with the texts of the rules: each template is a pattern, so
that a sentence gives its rule and its figures, whatever words it has today. A figure is compared with what the broker
itself said within a round before (FIGURES), a word of state ("offline", "lost", "is gone") with what was staged
(STATES), "It was: ..." with a trouble that must be over. What has no group in it is the cluster's.

Not here: whether everything was said. The soak and the blind run count what is missed.
"""

from __future__ import annotations

import html
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from offsetguard.catalogue import catalogue
from offsetguard.catalogue.catalogue import entries
from offsetguard.catalogue.text import Language
from offsetguard.judge.registry import RULES
from offsetguard.model.verdicts import Severity

ROUND = timedelta(seconds=60)  # between two rounds: what is said may be as old, or its age as much beside
CLOCKS = timedelta(seconds=5)  # between two looks at the broker, and as late are commits
GAP = timedelta(seconds=20)  # without a look at the broker: what was so meanwhile is not known
SLACK = 100  # messages that come and go in that time
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class Kind(StrEnum):
    """What is staged."""

    OFFLINE = "offline"  # no client of the group runs
    LOST = "lost"  # messages that it has not consumed are deleted
    GONE = "gone"  # it is deleted, with its offsets
    RESET = "reset"  # somebody set its offsets back or forward
    BEYOND = "beyond"  # its offsets lie beyond the end
    HANG = "hang"  # its listeners never come back
    SLOW = "slow"  # they consume less than is written
    BROKER = "broker"  # a broker is away, or comes back
    COLLECTOR = "collector"  # nobody collects
    RETENTION = "retention"  # a broker deletes what is old


SLOW_RULES = {"slow_consumption", "accumulation", "flow_control", "queue_parallelism_cap", "reads_moved_to_slave"}
BEHIND_RULES = {*SLOW_RULES, "loss_ahead", "consumer_offline"}
RULES_OF = {
    Kind.OFFLINE: {"consumer_offline", "loss_ahead", "accumulation", "messages_lost"},
    Kind.LOST: {"messages_lost", "offset_moved_by_retention", "consumer_offline", "loss_ahead"},
    Kind.GONE: {"consumer_offline", "never_committed"},
    Kind.RESET: {"offset_reset", *BEHIND_RULES},
    Kind.BEYOND: {"offset_reset", "queue_recreated", "offsets_violate_invariant", "consumer_offline"},
    Kind.HANG: {"handlers_hanging", "client_stands_still", "poison_message", *BEHIND_RULES},
    Kind.SLOW: BEHIND_RULES,
    Kind.BROKER: {
        *("broker_unreachable", "collection_incomplete", "slave_behind", "master_switched"),
        *("transactions_not_ended", "membership_disagrees", "store_slow"),
    },
    Kind.COLLECTOR: {"facts_not_published", "collection_incomplete"},
    Kind.RETENTION: {"messages_lost", "offset_moved_by_retention", "loss_ahead", "disk_filling"},
}
"""What may be said above INFO while something lasts, and for as long as TAILS after it."""


def trouble_of(rule_id: str) -> str:
    """Return what rules share that show stages of one trouble."""
    return RULES[rule_id].trouble if rule_id in RULES else rule_id


ENDS_WITH = {  # told as over only once the trouble is
    Kind.OFFLINE: {"consumer_offline", "messages_lost"},
    Kind.LOST: {"messages_lost"},
    Kind.HANG: {"handlers_hanging", "client_stands_still"},
}
TAILS = dict.fromkeys(Kind, timedelta(minutes=5)) | dict.fromkeys((Kind.RESET, Kind.BEYOND), timedelta(minutes=40))
ONE_TROUBLE = {Kind.LOST: Kind.OFFLINE, Kind.BEYOND: Kind.RESET, Kind.SLOW: Kind.HANG, Kind.GONE: Kind.OFFLINE}
AT_ONCE = {Kind.OFFLINE, Kind.LOST, Kind.GONE, Kind.RESET, Kind.BEYOND}  # since when they are is no matter of rates
OF_ALL = {Kind.BROKER, Kind.COLLECTOR, Kind.RETENTION}  # whatever stands or falls meanwhile may do so because of them


@dataclass(slots=True)
class Trouble:
    """Something that was staged; `figures`: between what bounds they are true."""

    kind: Kind
    group: str | None
    began: datetime
    ended: datetime | None = None
    figures: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def lasts(self, since: datetime, until: datetime, after: timedelta = timedelta()) -> bool:
        """Whether it was there at any moment of a span, or had ended no longer than `after` before it."""
        return self.began <= until and (self.ended is None or self.ended + after >= since)


@dataclass(frozen=True, slots=True)
class Look:
    """What the broker itself said of a group's queues: (min, max, committed offset or None) of each."""

    at: datetime
    queues: tuple[tuple[int, int, int | None], ...]

    def figure(self, name: str) -> int | None:
        """Return `effective_lag`, `lost` or `beyond`, in messages; None: not every queue has an offset."""
        total = 0
        for low, high, committed in self.queues:
            if committed is None:
                return None
            waiting, lost = high - max(low, committed), low - committed
            total += max(0, {"effective_lag": waiting, "lost": lost, "beyond": committed - high}[name])
        return total


@dataclass(frozen=True, slots=True)
class Round:
    """A round of the pipeline: when it began, and when what it said had arrived; ages count to `until`."""

    began: datetime
    ended: datetime
    until: datetime
    before: datetime | None = None  # when the round before began

    @property
    def since(self) -> datetime:
        """From when on something may have been so: what a round does not find again still stands there in its words."""
        return min(self.began - ROUND, (self.before or self.began) - CLOCKS)


@dataclass(slots=True)
class Truth:
    """What was staged, and what was seen of it, by consumer group."""

    groups: frozenset[str]
    troubles: list[Trouble] = field(default_factory=list)
    looks: dict[str, list[Look]] = field(default_factory=dict)  # in order of time
    clients: dict[str, list[tuple[datetime, int]]] = field(default_factory=dict)  # from then on so many are online

    def of(self, group: str | None, rule_id: str | None = None) -> list[Trouble]:
        """Return the troubles of a group, and those of all; `rule_id`: which it tells of."""
        mine = [one for one in self.troubles if one.group in (group, None)]
        trouble = None if rule_id is None else trouble_of(rule_id)
        return [one for one in mine if trouble is None or trouble in set(map(trouble_of, RULES_OF[one.kind]))]

    def clients_within(self, group: str, since: datetime, until: datetime) -> set[int]:
        """Return how many clients were online in a span, all that is true of a moment of it."""
        steps = self.clients.get(group, [])
        before = [count for at, count in steps if at <= since][-1:] or [0]
        return {*before, *(count for at, count in steps if since < at <= until)}

    def looks_within(self, group: str, since: datetime, until: datetime) -> list[Look]:
        """Return what the broker said within a span."""
        return [one for one in self.looks.get(group, ()) if since <= one.at <= until]

    def advanced(self, group: str, until: datetime) -> datetime | None:
        """Return when the group was last seen to have committed anything; None: not while we looked."""
        looks = [one for one in self.looks.get(group, ()) if one.at <= until]
        for before, after in zip(reversed(looks[:-1]), reversed(looks), strict=False):
            if any(
                one[2] is not None and one[2] > (was[2] or 0)
                for was, one in zip(before.queues, after.queues, strict=True)
            ):
                return after.at
        return None

    def oldest(self, group: str, at: datetime) -> datetime | None:
        """Return by when the oldest message that waits had been written; None: nothing waits, or before all looks."""
        looks = [one for one in self.looks.get(group, ()) if one.at <= at]
        if not looks:
            return None
        written = []
        for place, (low, high, committed) in enumerate(looks[-1].queues):
            next_one = max(low, committed or 0)
            if high > next_one:
                there = [one.at for one in looks if one.queues[place][1] > next_one]
                written.append(NEVER if there[0] == looks[0].at else there[0])
        return min(written, default=None)


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence: where it stands, of which round, and whether it tells how it was."""

    where: str
    line: str
    round: Round
    past: bool = False

    @property
    def since(self) -> datetime:
        """From when on it may have been so."""
        return NEVER if self.past else self.round.since


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of a rule: what it is about, and its figures as numbers or moments."""

    rule_id: str  # empty: of no rule
    group: str | None
    figures: Mapping[str, int | datetime]


_DURATION = r"(?:at least )?(?:\d+ (?:ms|s|min|h|d)(?: |\b))+"
_MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
_FORMS = {"messages": r"-?[\d,]+", "duration": _DURATION, "moment": _MOMENT, "plural": "s?", "clock": r"\d\d:\d\d"}
_OF_SENTENCES = {"silence": _DURATION}
_NAMES = frozenset({"consumer_group", "topic"})
_UNIT_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return (rule, pattern) of every English text that says how something is."""
    course = entries("messages.yml")["lag_course"][Language.EN]
    course = course.replace("{name}", "{consumer_group}").replace("{last:messages}", "{effective_lag:messages}")
    texts = [(rule.id, some) for rule in RULES.values() for some in rule.texts.values()]
    templates = [("", course), *((rule_id, text) for rule_id, one in texts for text in (one.summary, one.cause))]
    return tuple((rule_id, re.compile(_pattern(text))) for rule_id, text in templates)


def _pattern(template: str) -> str:
    pieces, named = [], set()
    for text, name, form, _ in string.Formatter().parse(template):
        pieces.append(re.escape(text))
        if name is None:
            continue
        shape = r"[\w%.-]+" if name in _NAMES else _OF_SENTENCES.get(name) or _FORMS.get(form or "", ".+?")
        shape = shape if form == "plural" else f"(?:unknown|{shape})"
        pieces.append(shape if form == "plural" or name in named else f"(?P<{name}>{shape})")
        named |= {name} - ({name} if form == "plural" else set())
    return rf"(?<![\w-]){''.join(pieces)}(?![\w-])"


@cache
def claims_of(line: str, groups: frozenset[str]) -> tuple[Claim, ...]:
    """Return what a line says in the words of a rule; of another group than these nothing."""
    found = []
    for rule_id, pattern in _patterns():
        if (match := pattern.search(line)) is not None:
            texts = match.groupdict()
            group = texts.get("consumer_group")
            if group is None or group in groups:
                figures = {name: value for name, text in texts.items() if (value := _value(text)) is not None}
                found.append((len(match[0]), Claim(rule_id, group, figures)))
    longest = max((length for length, _ in found), default=0)  # the others are parts of it
    whole = {(claim.rule_id, claim.group): claim for length, claim in found if length == longest}
    return tuple(whole.values())


def _value(text: str | None) -> int | datetime | None:
    if text is None:
        return None
    if re.fullmatch(r"-?[\d,]+", text):
        return int(text.replace(",", ""))
    if re.fullmatch(_MOMENT, text):
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    if re.fullmatch(_DURATION, text):
        return sum(int(count) * _UNIT_MS[unit] for count, unit in re.findall(r"(\d+) (ms|s|min|h|d)\b", text))
    return None


Check = Callable[[Truth, str, int, Said], str | None]


def _counted(name: str) -> Check:
    """Compare a number of messages with what the broker said within a round."""

    def check(truth: Truth, group: str, value: int, said: Said) -> str | None:
        looks = truth.looks_within(group, said.since, said.round.ended)
        seen = [count for one in looks if (count := one.figure(name)) is not None]
        slack = 0 if name == "lost" else SLACK
        gaps = [after.at - before.at for before, after in pairwise(looks)]
        is_unknown = len(seen) < len(looks) or max(gaps, default=GAP) >= GAP  # a broker was away, or a group is new
        if is_unknown or min(seen) - slack <= value <= max(seen) + slack:
            return None
        return f"{name} was between {min(seen):,} and {max(seen):,}"

    return check


def _clients(truth: Truth, group: str, value: int, said: Said) -> str | None:
    counts = truth.clients_within(group, said.since, said.round.ended)
    return None if value in counts else f"clients online: {sorted(counts)}"


def _silence(truth: Truth, group: str, value: int, said: Said) -> str | None:
    """Compare with the longest silence at any moment that the sentence may tell of."""
    moments = [one.at for one in truth.looks_within(group, said.since, said.round.ended)]
    last = {at: truth.advanced(group, at) for at in (*moments[::4], *moments[-1:])}
    longest = max((at - (one or NEVER) for at, one in last.items()), default=ROUND * 1e6)
    is_so = timedelta(milliseconds=value) <= longest + ROUND + CLOCKS
    return None if is_so or said.past else f"it committed at {max(filter(None, last.values())):%H:%M:%S}"


def _age(truth: Truth, group: str, value: int, said: Said) -> str | None:
    moments = [one.at for one in truth.looks_within(group, said.since, said.round.ended)]
    written = {at: one for at in (*moments[::4], *moments[-1:]) if (one := truth.oldest(group, at)) is not None}
    if said.past or NEVER in written.values() or not written:
        return None
    ages = [at - one for at, one in written.items()]
    is_so = min(ages) - ROUND <= timedelta(milliseconds=value) <= max(ages) + ROUND + CLOCKS * 2
    return None if is_so else f"the oldest that waits was written at {min(written.values()):%H:%M:%S}"


def _set(name: str) -> Check:
    """Compare how many are skipped or repeated with what a reset did."""

    def check(truth: Truth, group: str, value: int, said: Said) -> str | None:
        resets = [one for one in truth.of(group) if one.kind is Kind.RESET and one.began <= said.round.ended]
        bounds = [
            one.figures.get(name, (0, 0)) for one in resets if one.lasts(said.since, said.round.ended, ROUND * 60)
        ]
        bounds = bounds or [(0, SLACK)]
        if any(low <= value <= high for low, high in bounds):
            return None
        return f"{name} was {' or '.join(f'{low:,} to {high:,}' for low, high in bounds)}"

    return check


def _overtaken(truth: Truth, group: str, value: int, said: Said) -> str | None:
    """Compare with the most that it had lost before it went on behind the gap."""
    looks = truth.looks_within(group, said.round.began - TAILS[Kind.RESET], said.round.ended)
    most = max((one.figure("lost") or 0 for one in looks), default=0)
    return None if value <= most + SLACK else f"lost was {most:,} at most"


FIGURES: Mapping[str | tuple[str, str], Check] = {  # by name, or by rule and name
    ("offset_moved_by_retention", "lost"): _overtaken,
    **{name: _counted(name) for name in ("effective_lag", "lost", "beyond")},
    **{name: _set(name) for name in ("repeated", "skipped")},
    "online_client_count": _clients,
    "silence": _silence,
    "silence_ms": _silence,
    "lag_ms": _age,
}


def _no_client(truth: Truth, group: str, said: Said) -> str | None:
    counts = truth.clients_within(group, said.since, said.round.ended)
    return None if 0 in counts else f"clients online all the time: {sorted(counts)}"


def _staged(kind: Kind) -> Callable[[Truth, str, Said], str | None]:
    def check(truth: Truth, group: str, said: Said) -> str | None:
        mine = [one for one in truth.of(group) if one.kind is kind]
        is_so = any(one.lasts(said.since, said.round.ended, TAILS[kind]) for one in mine)
        return None if is_so else f"it was never {kind}"

    return check


def _no_loss(truth: Truth, group: str, said: Said) -> str | None:
    looks = truth.looks_within(group, said.since, said.round.ended)
    lost = [one.figure("lost") or 0 for one in looks]
    return f"it lost {min(lost):,}" if lost and min(lost) > 0 else None


def _exists(truth: Truth, group: str, said: Said) -> str | None:
    return None if truth.clients.get(group) else "no such group ever was"


def _goes_on(truth: Truth, group: str, said: Said) -> str | None:
    hangs = [one for one in truth.of(group) if one.kind is Kind.HANG and one.ended is None]
    return next((f"it hangs since {one.began:%H:%M:%S}" for one in hangs if one.began < said.since), None)


def _stands(truth: Truth, group: str, said: Said) -> str | None:
    return _silence(truth, group, 2 * ROUND // timedelta(milliseconds=1), said)


def _to_come(moment: datetime, of: Round) -> str | None:
    """Nobody can have seen what was still to come when it was told."""
    return f"told by {of.ended:%H:%M:%S}, before that moment" if moment > of.ended + CLOCKS else None


STATES: Sequence[tuple[re.Pattern[str], Callable[[Truth, str, Said], str | None]]] = (
    (
        re.compile(
            r"\bis offline\b|\b[Nn]o client .*\bis online\b|has no client online|\bis away\b|consumers are offline"
        ),
        _no_client,
    ),
    (re.compile(r"is gone: the brokers keep no offsets"), _staged(Kind.GONE)),
    (re.compile(r"\bnot stopped\b"), _goes_on),
    (re.compile(r"\bstands still on\b"), _stands),
    (re.compile(r"No loss is in sight"), _no_loss),
    (re.compile(r"Nothing is open about this group"), _exists),
)
_TITLED = re.compile(
    r"^(?:\[\w+\] [^·]+ · |(?:\d+\. )?[A-Z]+: )[^·]+ · (?P<title>[^·]+)$"
)  # of a subject, or of several
_LISTED = re.compile(
    rf"^(?:\d+\. |- )?(?:CRITICAL|WARNING|INFO): |^- (?!(?:{'|'.join(RULES)}): )"
)  # no "also explains"
_HEADLINE = re.compile(r"^(?:\d+\. |- )?(CRITICAL|WARNING|INFO): (.*)$")
_SINCE = re.compile(rf"^\W*(?P<word>Since|First seen)\W+(?P<before>before )?(?P<moment>{_MOMENT})")
_LAST_SEEN = re.compile(_pattern(entries("sentences.yml")["last_seen"][Language.EN]))
_IT_WAS = catalogue().say("mail_it_was", cause="")
_BEFORE_THAT = "Not seen any more, because "  # `not_seen_any_more`
_OVER = f"[{catalogue().say('resolved').upper()}]"
_RESOLVED = {catalogue().say("mail_resolved"), catalogue().say("page_over")}
_BLOCK = re.compile(r"</?(?:p|div|tr|li|ul|h\d|table|thead|tbody|td|th|pre|br|header|button)\b[^>]*>", re.IGNORECASE)


def _is_titled(title: str, claims: Sequence[Claim]) -> bool:
    """Whether a title is that of what is listed; what is no rule's title ("... other troubles") claims nothing."""
    of_title = {rule.id for rule in RULES.values() if rule.title == title}
    return not of_title or any(claim.rule_id in of_title for claim in claims)


def lines_of_html(text: str) -> str:
    """Return what a reader sees of a page, a line for each block."""
    text = re.sub(r"<(style|script|svg|head)\b.*?</\1>", "", text, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", _BLOCK.sub("\n", text)))


class FalseSentence(NamedTuple):
    """Something that was said and is not so."""

    said: Said
    why: str


@dataclass(slots=True)
class Checker:
    """Reads everything that is said, in order of time, and keeps what is false."""

    truth: Truth
    false: list[FalseSentence] = field(default_factory=list)  # each sentence once, where it stood first
    read_count: int = 0  # sentences of rules
    acknowledged: dict[tuple[str, str], tuple[datetime, Severity]] = field(default_factory=dict)  # (group, trouble)
    _told: dict[str, set[str]] = field(default_factory=dict)  # group -> rules that were told, and not that they ended
    _known: set[tuple[str, str]] = field(default_factory=set)
    _heads: set[tuple[str, str]] = field(default_factory=set)  # of the text that is read
    _worst: dict[str, tuple[datetime, Severity | None]] = field(default_factory=dict)

    def read(
        self, where: str, text: str, of: Round, *, group: str | None = None, past: bool = False, mail: bool = False
    ) -> None:
        """Read a text line by line. `group`: whose page it is; `past`: all of it tells how it was; `mail`: it is one.

        What is told of an acknowledged or a double trouble counts in mails: the other texts repeat them.
        """
        about, claim = group, None
        self._heads.clear()
        title = ""
        for raw in text.splitlines():
            line = raw.strip().strip("*")
            past = past or line.rstrip(":") in _RESOLVED
            was = line.startswith(_IT_WAS)
            told_as_over = was or _BEFORE_THAT in line or line.startswith(_OVER)
            said = Said(where, line, self._round_of(where, line, of), past=past or told_as_over)
            if (titled := _TITLED.match(line)) is not None:
                title = titled["title"]
            claims = claims_of(line.removeprefix(_IT_WAS), self.truth.groups) if line else ()
            for claim in claims:
                self.read_count += 1
                about = claim.group or about
                self._check_figures(said, claim)
                if was:
                    self._check_ended(said, claim, mail=mail)
            if claims and not said.past and _LISTED.match(line) and not _is_titled(title, claims):
                self._keep(said, f"stands under the title {title!r}")
            for words, check in STATES:
                for name in self._named(line) or [about] if words.search(line) else ():
                    self._keep(said, check(self.truth, name, said) if name is not None else None)
            if not said.past and (head := _HEADLINE.match(line)) is not None:
                self._check_headline(said, Severity(head[1].lower()), claims, mail=mail)
            if claim is not None and (since := _SINCE.match(line)) is not None:
                exactly = since["word"] == "Since" and not since["before"]
                self._check_since(said, claim, _value(since["moment"]), exactly=exactly)

    def _round_of(self, where: str, line: str, of: Round) -> Round:
        """Return the round whose words a line gives: of what is not seen any more the one that saw it last."""
        seen = _LAST_SEEN.search(line)
        moment = None if seen is None else _value(seen["at"])
        if not isinstance(moment, datetime):
            return of
        self._keep(Said(where, line, of), _to_come(moment, of))
        return Round(moment - CLOCKS, moment, moment)

    def see_open(self, of: Round, worst: Mapping[str, Severity]) -> None:
        """Compare the worst severity of what is open about each group with that of the round before."""
        for group in self.truth.groups:
            at, before = self._worst.get(group, (of.began, None))
            now = worst.get(group)
            self._worst[group] = of.began, now
            if before is not None and (now is None or now.rank < before.rank) and self._unchanged(group, at, of.ended):
                said = Said("incidents", f"{group}: {before} became {now or 'nothing'}", of)
                self._keep(said, "its trouble is staged, and nothing has changed")

    def _unchanged(self, group: str, since: datetime, until: datetime) -> bool:
        """Whether a trouble lasts, of which nothing has begun or ended lately."""
        lately = since - ROUND * 3
        mine = self.truth.of(group)
        moved = [moment for one in mine for moment in (one.began, one.ended) if moment and lately <= moment <= until]
        lasting = [one for one in mine if one.ended is None and one.kind not in OF_ALL]
        shared = [one for one in mine if one.kind in OF_ALL and one.lasts(lately, until)]
        return bool(lasting) and not moved and not shared

    def _check_figures(self, said: Said, claim: Claim) -> None:
        if claim.group is None:
            return
        for name, value in claim.figures.items():
            if isinstance(value, datetime):
                if name == "away_since":
                    self._check_since(said, claim, value, exactly=True)
            elif (check := FIGURES.get((claim.rule_id, name)) or FIGURES.get(name)) is not None:
                self._keep(said, check(self.truth, claim.group, value, said))

    def _check_headline(self, said: Said, severity: Severity, claims: Sequence[Claim], *, mail: bool) -> None:
        if severity is Severity.INFO:
            return
        if not claims and self._named(said.line):
            self._keep(said, "no text of the rules reads like this, so nobody can check it")
        if not claims:
            return
        claim = claims[0]
        for_it = self.truth.of(claim.group, claim.rule_id)
        if not any(one.lasts(said.since, said.round.ended, TAILS[one.kind]) for one in for_it):
            self._keep(said, f"nothing that was staged makes {claim.rule_id} true")
        if claim.group is not None and mail:
            self._check_acknowledged(said, severity, claim, claim.group)
            self._check_double(said, claim, claim.group)

    def _check_acknowledged(self, said: Said, severity: Severity, claim: Claim, group: str) -> None:
        at, before = self.acknowledged.get((group, trouble_of(claim.rule_id)), (said.round.ended, severity))
        is_new = any(one.began > at for one in self.truth.of(group) if one.group is not None)
        if at < said.round.began and severity.rank <= before.rank and not is_new:
            self._keep(said, f"acknowledged at {at:%H:%M:%S} as {before}, and no worse since")

    def _check_double(self, said: Said, claim: Claim, group: str) -> None:
        told, trouble = self._told.setdefault(group, set()), trouble_of(claim.rule_id)
        told.add(trouble)
        of_group = [one for one in self.truth.of(group) if one.group is not None or one.kind is Kind.RETENTION]
        kinds = {one.kind for one in of_group if one.lasts(said.since, said.round.ended, TAILS[one.kind])}
        if (group, trouble) in self._heads or len(told) > max(1, len({ONE_TROUBLE.get(one, one) for one in kinds})):
            self._keep(said, f"one trouble, told twice: {' and '.join(sorted(told))}")
        self._heads.add((group, trouble))

    def _check_ended(self, said: Said, claim: Claim, *, mail: bool) -> None:
        if claim.group is None:
            return
        if mail:
            self._told.get(claim.group, set()).discard(trouble_of(claim.rule_id))
            self.acknowledged.pop((claim.group, trouble_of(claim.rule_id)), None)
        for one in self.truth.of(claim.group):
            if claim.rule_id not in ENDS_WITH.get(one.kind, ()):
                continue
            is_old = one.began < said.round.began - ROUND * 3
            if one.group is not None and is_old and (one.ended is None or one.ended > said.round.ended):
                self._keep(said, f"told as over, and {one.kind} since {one.began:%H:%M:%S} is not")

    def _check_since(self, said: Said, claim: Claim, moment: object, *, exactly: bool = False) -> None:
        if not isinstance(moment, datetime) or claim.group is None:
            return
        self._keep(said, _to_come(moment, said.round))
        spans = []
        for one in self.truth.of(claim.group, claim.rule_id):
            until = (one.ended or said.round.ended) + TAILS[one.kind]
            spans.append((one.began, one.began + ROUND + CLOCKS if exactly and one.kind in AT_ONCE else until))
        if spans and not any(began - CLOCKS <= moment <= until for began, until in spans):
            began = ", ".join(sorted({f"{began:%H:%M:%S}" for began, _ in spans}))
            self._keep(said, f"began at {began}")

    def _named(self, line: str) -> list[str | None]:
        """Return the groups that a line names."""
        words = set(re.findall(r"[\w%-]+", line))
        return [one for one in self.truth.groups if one in words]

    def _keep(self, said: Said, why: str | None) -> None:
        key = (
            said.line,
            re.sub(r"[\d:,]+", "", why or ""),
        )  # the same is said in HTML, on Slack, and again the next minute
        if why is not None and key not in self._known:
            self._known.add(key)
            self.false.append(FalseSentence(said, why))


def strings_in(value: object) -> Iterator[str]:
    """Yield the texts of a structure: blocks of Slack."""
    if isinstance(value, Mapping):
        if isinstance(value.get("text"), str):
            yield value["text"].replace("`", "")
        for below in value.values():
            yield from strings_in(below)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for below in value:
            yield from strings_in(below)
