"""Reads what is said in order of time, and keeps what is false."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from offsetguard.catalogue import catalogue
from offsetguard.catalogue.catalogue import entries
from offsetguard.catalogue.text import Language
from offsetguard.judge.registry import RULES
from offsetguard.model.verdicts import Severity
from offsetguard_peers.trials.claims.comparing import FIGURES, STATES, Said, to_come
from offsetguard_peers.trials.claims.reading import MOMENT, Claim, claims_of, pattern_of, value_of
from offsetguard_peers.trials.claims.truth import (
    AT_ONCE,
    CLOCKS,
    ENDS_WITH,
    OF_ALL,
    ONE_TROUBLE,
    ROUND,
    TAILS,
    Kind,
    Round,
    Truth,
    stage_of,
    trouble_of,
)

SECOND = timedelta(seconds=1)  # what moments are cut to where people read them

_TITLED = re.compile(
    r"^(?:\[\w+\] [^·]+ · |(?:\d+\. )?[A-Z]+: )[^·]+ · (?P<title>[^·]+)$"
)  # of a subject, or of several
_LISTED = re.compile(
    rf"^(?:\d+\. |- )?(?:CRITICAL|WARNING|INFO): |^- (?!(?:{'|'.join(RULES)}): )"
)  # no "also explains"
_HEADLINE = re.compile(r"^(?:\d+\. |- )?(CRITICAL|WARNING|INFO): (.*)$")
_SINCE = re.compile(rf"^\W*(?P<word>Since|First seen)\W+(?P<before>before )?(?P<moment>{MOMENT})")
_LAST_SEEN = re.compile(pattern_of(entries("sentences.yml")["last_seen"][Language.EN]))
_LASTED = re.compile(r"^\W*Lasted\W.*, from (?P<day>\d{4}-\d\d-\d\d )\d\d:\d\d:\d\d to (?P<end>\d\d:\d\d:\d\d UTC)$")
_IT_WAS = catalogue().say("mail_it_was", cause="")
_BEFORE_THAT = "Not seen any more, because "  # `not_seen_any_more`
_OVER = f"[{catalogue().say('resolved').upper()}]"
_RESOLVED = {catalogue().say(name).casefold() for name in ("mail_resolved", "page_over")}


def _is_titled(title: str, claims: Sequence[Claim]) -> bool:
    """Whether a title is that of what is listed; what is no rule's title ("... other troubles") claims nothing."""
    of_title = {rule.id for rule in RULES.values() if rule.title == title}
    return not of_title or any(claim.rule_id in of_title for claim in claims)


def _lasted_until(lines: Sequence[str]) -> datetime | None:
    """Return when a trouble ended whose text these lines follow; None: they do not say."""
    for line in lines:
        if line.startswith(_IT_WAS) or line.strip().startswith(_IT_WAS):
            return None
        if (lasted := _LASTED.search(line)) is not None:
            ended = value_of(lasted["day"] + lasted["end"])
            return ended if isinstance(ended, datetime) else None
    return None


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
    # by group and trouble: when, how severe, and by which rule it was shown
    acknowledged: dict[tuple[str, str], tuple[datetime, Severity, str]] = field(default_factory=dict)
    # by group the troubles that were told, and not that they ended: since when
    _told: dict[str, dict[str, datetime]] = field(default_factory=dict)
    _rounds: dict[Round, None] = field(default_factory=dict)  # in order of time
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
        self._rounds[of] = None
        self._heads.clear()
        title = ""
        lines = text.splitlines()
        for place, raw in enumerate(lines):
            line = raw.strip().strip("*")
            past = past or line.rstrip(":").casefold() in _RESOLVED
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
                    self._check_ended(said, claim, _lasted_until(lines[place + 1 :]), mail=mail)
            if claims and not said.past and _LISTED.match(line) and not _is_titled(title, claims):
                self._keep(said, f"stands under the title {title!r}")
            for words, check in STATES:
                for name in self._named(line) or [about] if words.search(line) else ():
                    self._keep(said, check(self.truth, name, said) if name is not None else None)
            if not said.past and (head := _HEADLINE.match(line)) is not None:
                self._check_headline(said, Severity(head[1].lower()), claims, mail=mail)
            if claim is not None and (since := _SINCE.match(line)) is not None:
                exactly = since["word"] == "Since" and not since["before"]
                self._check_since(said, claim, value_of(since["moment"]), exactly=exactly)

    def _round_of(self, where: str, line: str, of: Round) -> Round:
        """Return the round whose words a line gives: of what is not seen any more the one that saw it last."""
        seen = _LAST_SEEN.search(line)
        moment = None if seen is None else value_of(seen["at"])
        if not isinstance(moment, datetime):
            return of
        self._keep(Said(where, line, of), to_come(moment, of))
        of_then = (one for one in self._rounds if one.began - SECOND <= moment <= one.ended)
        return next(of_then, Round(moment - CLOCKS, moment, moment))

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
        is_staged = any(one.lasts(said.since, said.round.ended, TAILS[one.kind]) for one in for_it)
        if not is_staged and claim.rule_id not in self.truth.of_version:
            self._keep(said, f"nothing that was staged makes {claim.rule_id} true")
        if claim.group is not None and mail:
            self._check_acknowledged(said, severity, claim, claim.group)
            self._check_double(said, claim, claim.group)

    def _check_acknowledged(self, said: Said, severity: Severity, claim: Claim, group: str) -> None:
        unknown = said.round.ended, severity, claim.rule_id
        at, before, rule_id = self.acknowledged.get((group, trouble_of(claim.rule_id)), unknown)
        is_new = any(one.began > at for one in self.truth.of(group) if one.group is not None)
        looks = [
            (one.at, one.figure("lost") or 0) for one in self.truth.looks_within(group, at - ROUND, said.round.ended)
        ]
        lost_then = max((lost for moment, lost in looks if moment <= at), default=0)
        is_worse = any(lost > lost_then for moment, lost in looks if moment > at)
        is_worse |= stage_of(claim.rule_id) > stage_of(rule_id)  # a loss that was ahead has come
        if at < said.round.began and severity.rank <= before.rank and not is_new and not is_worse:
            self._keep(said, f"acknowledged at {at:%H:%M:%S} as {before}, and no worse since")

    def _check_double(self, said: Said, claim: Claim, group: str) -> None:
        if claim.rule_id == "rebalances_again":  # of all that ended its clients within half an hour: `departure_count`
            return
        told, trouble = self._told.setdefault(group, {}), trouble_of(claim.rule_id)
        since = min([told.setdefault(trouble, said.since), *told.values()])
        of_group = [one for one in self.truth.of(group) if one.group is not None or one.kind is Kind.RETENTION]
        kinds = {one.kind for one in of_group if one.lasts(since, said.round.ended, TAILS[one.kind])}
        looks = self.truth.looks_within(group, since - TAILS[Kind.LOST], said.round.ended)
        if any(one.figure("lost") for one in looks):  # behind a message that hangs, say, and nobody came to see it
            kinds.add(Kind.LOST)
        if (group, trouble) in self._heads or len(told) > max(1, len({ONE_TROUBLE.get(one, one) for one in kinds})):
            self._keep(said, f"one trouble, told twice: {' and '.join(sorted(told))}")
        self._heads.add((group, trouble))

    def _check_ended(self, said: Said, claim: Claim, until: datetime | None, *, mail: bool) -> None:
        """Compare what is told as over with what lasts; `until`: when it ended, so what began later is another one."""
        if claim.group is None:
            return
        if mail:
            self._told.get(claim.group, {}).pop(trouble_of(claim.rule_id), None)
            self.acknowledged.pop((claim.group, trouble_of(claim.rule_id)), None)
        for one in self.truth.of(claim.group):
            if claim.rule_id not in ENDS_WITH.get(one.kind, ()):
                continue
            is_old = one.began < min(said.round.began, until or said.round.began) - ROUND * 3
            if one.group is not None and is_old and (one.ended is None or one.ended > said.round.ended):
                self._keep(said, f"told as over, and {one.kind} since {one.began:%H:%M:%S} is not")

    def _check_since(self, said: Said, claim: Claim, moment: object, *, exactly: bool = False) -> None:
        if not isinstance(moment, datetime) or claim.group is None:
            return
        self._keep(said, to_come(moment, said.round))
        spans = []
        for one in self.truth.of(claim.group, claim.rule_id):
            at_once = exactly and one.kind in AT_ONCE
            until = self.truth.seen_by(one) if at_once else (one.ended or said.round.ended) + TAILS[one.kind]
            spans.append((one.began, until))
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
