"""What becomes unknown makes nothing better: the findings of all cases, with one figure less.

Of each case that finds something every figure of every group, broker and queue is taken away, one after the other.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from offsetguard.config import Config
from offsetguard.decide.incidents.lifecycle import advance, opened_by
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.registry import RULE_FILES, RULES, found_by
from offsetguard.judge.windows.windows import judge_queues
from offsetguard.model.intervals import Interval
from offsetguard.tables.group_facts import GroupFacts
from offsetguard_peers.cases.rules import config_of, facts_of, fold_ahead
from offsetguard_peers.cases.running import for_each, read_cases

CASES = {file.stem: read_cases(file) for file in sorted((Path(__file__).parent / "cases").glob("*.yml"))}


def without_one(facts: IntervalFacts, config: Config) -> Iterator[tuple[str, IntervalFacts]]:
    """Give the facts without one figure of one record, with its name; `facts`: with verdicts, as what is given."""
    for kind in ("groups", "brokers"):
        records = getattr(facts, kind)
        for place, record in enumerate(records):
            for one in fields(record):
                if "None" in str(one.type) and getattr(record, one.name) is not None:
                    poorer = (*records[:place], replace(record, **{one.name: None}), *records[place + 1 :])
                    yield f"{kind}[{place}].{one.name}", judge_queues(replace(facts, **{kind: poorer}), config)
    for place, queue in enumerate(facts.queues):
        for name, poor in queue_without_one(queue):
            queues = (*facts.queues[:place], poor, *facts.queues[place + 1 :])
            groups = tuple(group_of_poorer(group, queue, poor) for group in facts.groups)
            given = replace(facts, queues=queues, groups=groups)
            # what a window holds is of earlier rounds as well: of a round without offsets its verdict stays
            yield f"queues[{place}].{name}", judge_queues(given, config) if name == "lag_ms" else given


def queue_without_one(queue: QueueFacts) -> Iterator[tuple[str, QueueFacts]]:
    """Give the queue without one of its figures, or of its offsets: its broker did not say it in this round."""
    for one in fields(queue):
        if "None" in str(one.type) and one.name != "verdict" and getattr(queue, one.name) is not None:
            yield one.name, replace(queue, **{one.name: None})
    for one in fields(queue.offsets):
        if getattr(queue.offsets, one.name) is not None:
            poor = replace(queue, offsets=replace(queue.offsets, **{one.name: None}))
            unseen = one.name in ("max_offset", "consumer_offset")  # see `queue_state.sql`
            yield one.name, replace(poor, window=replace(poor.window, unknown_count=1)) if unseen else poor


def group_of_poorer(group: GroupFacts, queue: QueueFacts, poor: QueueFacts) -> GroupFacts:
    """Return the group as `pairs.sql` adds it up of its queues: over what is known of them."""
    waits = queue.offsets.effective_lag
    is_of_it = (group.consumer_group, group.topic) == (queue.consumer_group, queue.message_queue.topic)
    if not is_of_it or waits is None or poor.offsets.effective_lag is not None:
        return group
    unknown = group.unknown_queue_count + (poor.offsets.max_offset is None)
    left = None if group.effective_lag is None or group.queue_count == 1 else max(0, group.effective_lag - waits)
    return replace(group, unknown_queue_count=unknown, effective_lag=left)


FROM_CLIENTS = (
    *("told_client_count", "holding_client_count", "idle_client_count", "held_queue_count", "locked_queue_count"),
    *("full_cache_queue_count", "cached_message_count", "renewal_gap_ms", "thread_count", "orderly", "parallelism"),
    *("max_reconsume_times", "consume_ok_tps", "consume_failed_tps", "consume_rt_ms", "newest_client_start_at"),
    *("silent_client_ids", "subscription_expressions", "subscriptions_differ", "hit_ratio", "filtered"),
)


@for_each("file", RULE_FILES, name_of=lambda file: file.RULE.id)
def test_no_incident_of_a_group_in_trouble_ends_in_a_round_that_did_not_ask_its_clients(file: Any) -> None:
    """Events of what was done to offsets are over by themselves, and no client says anything of them."""
    if "offset_moves" in file.RULE.needs:
        return
    cases = [case for case in CASES[file.RULE.id] if case["expect"]]
    fold_ahead(case["facts"] for case in cases)
    cannot_tell = getattr(file, "cannot_tell", lambda *_: ())
    ended = []
    for case in cases:
        config, facts = config_of(case.get("config", [])), facts_of(case["facts"])
        found = [one for one in found_by(file, judge_queues(facts, config), config) if one.consumer_group]
        before = [replace(opened_by(one, facts.interval), is_pending=False) for one in found]
        unasked = dict.fromkeys(FROM_CLIENTS)
        groups = [replace(row, suspect_reason=row.suspect_reason or "lag", **unasked) for row in facts.groups]
        poorer = replace(
            judge_queues(replace(facts, groups=tuple(groups)), config), interval=Interval(facts.interval.end)
        )
        after = advance(before, found_by(file, poorer, config), poorer, RULES, cannot_tell=cannot_tell(poorer, config))
        ended += [
            f"{case['why']}: {one.evidence.summary}"
            for one in (*after.resolved, *after.calm)
            if one.is_over or one.good_count
        ]
    assert ended == []


@for_each("file", RULE_FILES, name_of=lambda file: file.RULE.id)
def test_no_incident_gets_milder_by_a_figure_that_is_not_known_any_more(file: Any) -> None:
    cases = [case for case in CASES[file.RULE.id] if case["expect"]]
    fold_ahead(case["facts"] for case in cases)
    cannot_tell = getattr(file, "cannot_tell", lambda *_: ())
    milder = []
    for case in cases:
        config, facts = config_of(case.get("config", [])), facts_of(case["facts"])
        judged = judge_queues(facts, config)
        before = [replace(opened_by(one, facts.interval), is_pending=False) for one in found_by(file, judged, config)]
        for name, given in without_one(judged, config):
            poorer = replace(given, interval=Interval(facts.interval.end))
            untold = cannot_tell(poorer, config)
            after = advance(before, found_by(file, poorer, config), poorer, RULES, cannot_tell=untold)
            now = {one.incident_id: one.evidence.severity.rank for one in after.seen_again}
            worse = [one for one in before if now.get(one.incident_id, 2) < one.evidence.severity.rank]
            milder += [f"{case['why']}: {name}, {one.evidence.summary}" for one in worse]
    assert milder == []
