"""Why something was not seen: the gaps of a round, sorted by who did not answer, and as words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from offsetguard.catalogue import Sentence

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from offsetguard.config import Config
    from offsetguard.facts import CollectionGap, IntervalFacts

# Who is stopped and started in order is back within half a minute. A name server strikes a broker out when its old
# connection closes after it has come back (4.9), until it registers again: at most 40 s.
GRACE = timedelta(seconds=90)
_REASONS_SHOWN = 5
_REASON_LENGTH = 200
_NAMES_SHOWN = 10
_REFUSED = "refused"  # an outcome that only somebody alive can give
Replica = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The gaps of one round by who did not answer."""

    name_servers: tuple[CollectionGap, ...]
    proxies: tuple[CollectionGap, ...]
    dead_masters: tuple[str, ...]  # by name: gave no offsets and no other answer
    dead_slaves: tuple[Replica, ...]
    of_the_dead: tuple[CollectionGap, ...]
    mute_masters: tuple[str, ...]  # by name: answer, and gave no offsets
    rest: tuple[CollectionGap, ...]  # what somebody who answers left unanswered


def unanswered(facts: IntervalFacts, config: Config) -> Unanswered:
    """Sort the gaps: nobody is called dead who answered anything, or refused it."""
    known = config.clusters.get(facts.cluster)
    addresses = set(known.name_servers) if known is not None else set()
    of_no_broker = [gap for gap in facts.gaps if gap.broker_name is None]
    proxies = tuple(gap for gap in of_no_broker if known is not None and gap.address in known.proxies)
    name_servers = tuple(gap for gap in of_no_broker if gap.address in addresses or not addresses)
    told = {*name_servers, *proxies}
    answered = {(one.broker_name, one.broker_id): one.answered for one in facts.brokers}
    alive = {
        (gap.broker_name, gap.broker_id) for gap in facts.gaps if gap.outcome == _REFUSED and gap.broker_id is not None
    } | {replica for replica, answer in answered.items() if answer}
    dead_masters = tuple(name for name in sorted(facts.unseen_broker_names) if (name, 0) not in alive)
    dead_slaves = tuple(
        replica
        for replica, answer in sorted(answered.items())
        if answer is False and replica[1] != 0 and replica not in alive
    )
    dead = {(name, 0) for name in dead_masters} | set(dead_slaves)
    return Unanswered(
        name_servers=name_servers,
        proxies=proxies,
        dead_masters=dead_masters,
        dead_slaves=dead_slaves,
        of_the_dead=tuple(gap for gap in facts.gaps if _replica(gap) in dead),
        mute_masters=tuple(sorted(facts.unseen_broker_names.difference(dead_masters))),
        rest=tuple(gap for gap in facts.gaps if gap not in told and _replica(gap) not in dead),
    )


def is_new(gaps: Sequence[CollectionGap], facts: IntervalFacts) -> bool:
    """Whether gaps of their kinds are known to be missed for less than the grace: a restart, or a lost packet."""
    since = [gap.first_missed_at for gap in gaps]
    return bool(gaps) and all(moment is not None and facts.now - moment < GRACE for moment in since)


def reasons(gaps: Iterable[CollectionGap]) -> Sentence:
    """Return who did not answer and why, most frequent first; "reason unknown" without gaps."""
    counted = Counter((gap.broker_name or gap.address, gap.outcome, _reason(gap)) for gap in gaps)
    shown = tuple(
        Sentence("reason_repeated", name=name, outcome=_outcome(outcome), reason=reason, count=count)
        if count > 1
        else Sentence("reason", name=name, outcome=_outcome(outcome), reason=reason)
        for (name, outcome, reason), count in counted.most_common(_REASONS_SHOWN)
    )
    hidden = len(counted) - len(shown)
    if hidden:
        return Sentence("reasons_and_more", shown=shown, hidden=hidden)
    return Sentence("reasons", shown=shown) if shown else Sentence("reason_unknown")


def names(listed: Sequence[str], count: int | None = None) -> str:
    """Return at most ten names, and how many more there are: `a, b (+12)`; `count` has those not listed, too."""
    hidden = (len(listed) if count is None else count) - len(listed[:_NAMES_SHOWN])
    return ", ".join(listed[:_NAMES_SHOWN]) + (f" (+{hidden})" if hidden > 0 else "")


def _outcome(outcome: str) -> Sentence:
    return Sentence(f"outcome_{outcome}")


def _replica(gap: CollectionGap) -> tuple[str | None, int | None]:
    return gap.broker_name, gap.broker_id


def _reason(gap: CollectionGap) -> str:
    """Return the reason without the address where the gap is called by its address already."""
    reason = gap.reason if gap.broker_name else gap.reason.removeprefix(f"{gap.address}: ")
    return reason[:_REASON_LENGTH]
