"""What becomes unknown makes nothing better: the findings of all cases, with one figure less.

Of each case that finds something every figure of every group and broker is taken away, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from offsetguard.decide.incidents.lifecycle import advance, opened_by
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.registry import RULE_FILES, RULES, found_by
from offsetguard.judge.windows.windows import judge_queues
from offsetguard.model.intervals import Interval
from offsetguard_peers.cases.rules import config_of, facts_of, fold_ahead
from offsetguard_peers.cases.running import for_each, read_cases

CASES = {file.stem: read_cases(file) for file in sorted((Path(__file__).parent / "cases").glob("*.yml"))}


def without_one(facts: IntervalFacts) -> Iterator[tuple[str, IntervalFacts]]:
    """Give the facts without one figure of one record, with its name."""
    for kind in ("groups", "brokers"):
        records = getattr(facts, kind)
        for place, record in enumerate(records):
            for one in fields(record):
                if "None" in str(one.type) and getattr(record, one.name) is not None:
                    poorer = (*records[:place], replace(record, **{one.name: None}), *records[place + 1 :])
                    yield f"{kind}[{place}].{one.name}", replace(facts, **{kind: poorer})


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
        found = found_by(file, judge_queues(facts, config), config)
        before = [replace(opened_by(one, facts.interval), is_pending=False) for one in found]
        for name, given in without_one(facts):
            poorer = replace(judge_queues(given, config), interval=Interval(facts.interval.end))
            untold = cannot_tell(poorer, config)
            after = advance(before, found_by(file, poorer, config), poorer, RULES, cannot_tell=untold)
            now = {one.incident_id: one.evidence.severity.rank for one in after.seen_again}
            worse = [one for one in before if now.get(one.incident_id, 2) < one.evidence.severity.rank]
            milder += [f"{case['why']}: {name}, {one.evidence.summary}" for one in worse]
    assert milder == []
