"""The five incidents, each beside what only looks like it, found on live brokers by the commands that operators use.

Everything is staged at once on one cluster for each line, recorded by `offsetguard record` and judged by `offsetguard
diagnose`, with no configuration at all. So each finding stands among all the others, and whatever is not named here is
a false alarm.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from offsetguard.judge.rule import Finding
from offsetguard.model.verdicts import Severity
from offsetguard_peers.processes import run_command
from offsetguard_peers.trials import incident_groups as groups
from offsetguard_peers.trials.incident_groups import Pair
from offsetguard_peers.trials.incident_stage import EVERY_S, SLOW_COUNT, StagedRun, stage_incidents
from offsetguard_peers.trials.judged_rounds import JudgedRound, judged_rounds_of_bundle
from offsetguard_peers.verdicts import KEEP_VARIABLE, Found, keep_incidents

pytestmark = [pytest.mark.live, pytest.mark.slow]

Line = dict[str, Any]  # a finding as `check` and `diagnose` print it


@dataclass(frozen=True, slots=True)
class Expected:
    """One staged trouble and the rule that must name it; `began` names the moment in `StagedRun.began`."""

    incident: str
    what: str
    pair: Pair
    rule: str
    severity: str
    began: str


EXPECTED = (
    Expected("I1", "reads move to the slave", groups.ARCHIVE, "reads_moved_to_slave", "info", "moved_to_slave"),
    Expected("I1", "consumers are gone", groups.EXPORT, "consumer_offline", "critical", "abandoned"),
    Expected("I2", "offset file unwritable", groups.PRICES, "offset_store_not_persisting", "critical", "unwritable"),
    Expected("I2", "retention overtook once", groups.STOCK, "offset_moved_by_retention", "critical", "unwritable"),
    Expected("I3", "slow consumer", groups.INVOICES, "slow_consumption", "info", "slowed"),
    Expected("I3", "filter hides the lag", groups.ALARMS, "filter_hides_lag", "info", "filtered"),
    Expected("I4", "killed with its locks", groups.TRADES, "lock_not_released", "warning", "killed"),
    Expected("I5", "poison message", groups.POSTINGS, "poison_message", "warning", "poisoned"),
    Expected("I5", "two queues, 80 threads", groups.BOOKINGS, "queue_parallelism_cap", "warning", "capped"),
)
OVER_AT_THE_END = {"offset_moved_by_retention", "lock_not_released"}  # it happened once; the lock has expired
ALLOWED = {(one.pair.group, one.rule) for one in EXPECTED} | {
    (groups.STOCK.group, "messages_lost")  # which is so from the first round on, until its client comes and is told
}


class Judged:
    """What a staged run was told: live near its end, at its end, and after each of its rounds."""

    def __init__(self, run: StagedRun, checked: Sequence[Line]) -> None:
        self.run = run
        self.checked = checked
        self.findings = printed("diagnose", run.bundle, "--format", "json")

    @cached_property
    def rounds(self) -> list[JudgedRound]:
        """Each recorded round, judged with those before it."""
        return judged_rounds_of_bundle(self.run.bundle)

    def of(self, pair: Pair, rule: str) -> Line:
        """Return the one finding of a rule about a group: what is so at the end, or what was and is over."""
        about = [one for one in self.findings if subject(one) == (pair.group, rule)]
        found = [one for one in about if not one["over"]] or about
        assert len(found) == 1, f"{rule} of {pair.group}; what was found: {[*map(subject, self.findings)]}"
        return found[0]

    def found_after(self, expected: Expected) -> Found | None:
        """Return how many judged rounds, and seconds, it took to name a trouble as severely; None = it never was."""
        began = self.run.began[expected.began] / 1000
        after = [one for one in self.rounds if one.at.timestamp() >= began]
        for count, one in enumerate(after, start=1):
            severities = [found.severity for found in one.judgement.findings if named(found) == subject_of(expected)]
            if any(severity.rank >= Severity(expected.severity).rank for severity in severities):
                took = round(one.at.timestamp() - began)
                return Found(expected.incident, expected.what, expected.rule, expected.severity, count, took)
        return None

    def allowed_if_kept(self, rule: str) -> set[tuple[str | None, str]]:
        """Return what is no false alarm where redeployed clients did keep locks, as the broker's log says."""
        return {(groups.PAYMENTS.group, rule)} if self.run.kept_locks else set()

    def false_alarms(self) -> list[tuple[int, str]]:
        """Return (round, what was said) for everything above INFO that is no trouble, or is not yet."""
        false, kept = [], self.allowed_if_kept("lock_not_released")
        for number, one in enumerate(self.rounds, start=1):
            begun = {
                (expected.pair.group, expected.rule)
                for expected in EXPECTED
                if self.run.began[expected.began] / 1000
                <= one.at.timestamp() + EVERY_S  # a round has the lines up to the next
            } | {(groups.STOCK.group, "messages_lost"), *kept}
            false += [
                (number, f"{found.rule.id}: {found.cause}")
                for found in one.loud()
                if named(found) not in begun and found.variant != "cannot_read"  # so of every slave of 5.5.0
            ]
        return false


def named(finding: Finding) -> tuple[str | None, str]:
    return finding.consumer_group, finding.rule.id


def subject_of(expected: Expected) -> tuple[str, str]:
    return expected.pair.group, expected.rule


def subject(line: Line) -> tuple[str | None, str]:
    return line["consumer_group"], line["rule"]


def printed(command: str, *arguments: str | Path) -> list[Line]:
    done = run_command(command, *arguments)
    assert done.returncode == 1, f"{command}: exit code {done.returncode}: {done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def stage(version: str, folder: Path) -> Judged:
    checked: list[Line] = []

    def check(run: StagedRun) -> None:
        looks = ["--samples", "3", "--every", f"{EVERY_S}s", "--format", "json"]
        checked.extend(printed("check", "--namesrv", run.namesrv, *looks))

    return Judged(stage_incidents(version, folder, when_troubled=check), checked)


@pytest.fixture(scope="session")
def on_4(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return stage("4.9.7", tmp_path_factory.mktemp("incidents-4"))


@pytest.fixture(scope="session")
def on_5(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return stage("5.5.0", tmp_path_factory.mktemp("incidents-5"))


@pytest.fixture(params=["on_4", "on_5"])
def judged(request: pytest.FixtureRequest) -> Judged:
    staged: Judged = request.getfixturevalue(request.param)
    return staged


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda one: one.what.replace(" ", "-"))
def test_each_trouble_is_named_by_its_rule(judged: Judged, expected: Expected) -> None:
    finding = judged.of(expected.pair, expected.rule)
    assert (finding["topic"], finding["severity"]) == (expected.pair.topic, expected.severity)
    assert finding["over"] is (expected.rule in OVER_AT_THE_END)
    assert judged.found_after(expected) is not None
    assert finding["broker_names"] == ["broker-a"]


def test_nothing_else_is_said_above_info_in_any_round(judged: Judged) -> None:
    """Neither of those that look like trouble: a quiet topic, a redeployment, a full cache, a steady slow group."""
    false_alarms = judged.false_alarms()
    assert false_alarms == []
    if os.environ.get(KEEP_VARIABLE):
        found = [one for expected in EXPECTED if (one := judged.found_after(expected)) is not None]
        keep_incidents(
            judged.run.version, found, every_s=EVERY_S, rounds=len(judged.rounds), false_findings=len(false_alarms)
        )


def test_a_live_check_says_nothing_that_is_not_so(judged: Judged) -> None:
    """Three looks and no log show less than a recording does, and nothing else."""
    loud = {subject(one) for one in judged.checked if one["severity"] != "info"}
    assert loud <= ALLOWED | {(groups.TRADES.group, "lock_contention")} | judged.allowed_if_kept("lock_contention")
    assert (groups.EXPORT.group, "consumer_offline") in {subject(one) for one in judged.checked}


def test_reads_that_moved_to_the_slave_are_told_with_both_rates_and_nothing_to_do(judged: Judged) -> None:
    """Incident I1: the master's TPS is 0 while the backlog falls, and the restart's noise means nothing."""
    finding = judged.of(groups.ARCHIVE, "reads_moved_to_slave")
    figures = finding["evidence"]
    assert figures["slave_get_tps"] > 10 * figures["master_get_tps"]
    assert figures["get_tps"] == pytest.approx(figures["slave_get_tps"] + figures["master_get_tps"], abs=1)
    since = datetime.fromisoformat(figures["slave_read_since"]).timestamp()
    assert judged.run.began["moved_to_slave"] / 1000 - 1 <= since
    assert "slave of broker-a" in finding["cause"]
    assert finding["do_next"].startswith("Nothing to do")


def test_a_group_whose_clients_are_gone_is_told_from_one_that_reads_elsewhere(judged: Judged) -> None:
    finding = judged.of(groups.EXPORT, "consumer_offline")
    assert finding["state"] == "STOPPED"
    assert finding["evidence"]["effective_lag"] == 12_000
    assert {one["queue_id"] for one in finding["queues"]} == {0, 1, 2, 3}
    assert "No client of consumer group order-export is online" in finding["cause"]


def test_an_offset_file_that_cannot_be_written_is_one_finding_with_its_client_and_what_is_gone(judged: Judged) -> None:
    """Incident I2: 4.x asks again at every rebalance, 5.x every second."""
    finding = judged.of(groups.PRICES, "offset_store_not_persisting")
    figures, client_id = finding["evidence"], judged.run.clients["prices"][0]
    oldest = judged.run.offsets["oldest_prices"]
    assert figures["requested_offset"] == judged.run.offsets["requested"][0] == 4
    assert figures["corrected_offset"] in oldest.values()
    assert figures["move_count"] >= 3
    assert figures["clients"] == client_id
    assert client_id in finding["cause"]
    assert "localOffsetStoreDir" in finding["do_next"]
    assert figures["lost"] in {sum(oldest.values()) - 4 * len(oldest), max(oldest.values()) - 4}
    assert not [one for one in judged.findings if subject(one) == (groups.PRICES.group, "offset_moved_by_retention")]


def test_a_group_that_retention_overtook_once_lost_what_lay_between(judged: Judged) -> None:
    finding = judged.of(groups.STOCK, "offset_moved_by_retention")
    committed, oldest = judged.run.offsets["committed"], judged.run.offsets["oldest_stock"]
    assert finding["evidence"]["lost"] == sum(oldest.values()) - sum(committed.values())
    assert finding["evidence"]["move_count"] == 1
    assert finding["evidence"]["requested_offset"] == committed[0]


def test_a_slow_consumer_is_told_by_what_it_has_in_process(judged: Judged) -> None:
    """Incident I3: everything was handed out, so the lag is neither a stop nor a lack of pulls."""
    finding = judged.of(groups.INVOICES, "slow_consumption")
    figures = finding["evidence"]
    assert judged.run.slow_left is not None
    assert judged.run.slow_left <= figures["effective_lag"] <= SLOW_COUNT
    assert figures["in_process"] == pytest.approx(figures["effective_lag"], abs=50)
    assert {one["queue_id"] for one in finding["queues"]} == {0, 1, 2, 3}
    assert "consumption is slow, not stopped" in finding["cause"]


def test_the_real_lag_of_a_filtered_group_lies_in_the_stated_range(judged: Judged) -> None:
    figures = judged.of(groups.ALARMS, "filter_hides_lag")["evidence"]
    left = judged.run.wanted_left
    assert left is not None
    # One a second: since the last round (or the one before, if that was cut short), and since the last commit before
    # it, which clients make every 5 s and busy machines later.
    since_round_s = (judged.run.began["looked around"] - judged.run.rounds_ms()[-2]) / 1000
    consumed_meanwhile = max(since_round_s, 0) + 60
    assert figures["matching_low"] <= left + consumed_meanwhile
    assert left <= figures["matching_high"]
    assert figures["effective_lag"] > 5 * left


def test_the_lock_of_a_killed_client_is_told_with_holder_waiter_queues_and_time(judged: Judged) -> None:
    """Incident I4: about a minute, to the second in which the broker's lock expired."""
    finding = judged.of(groups.TRADES, "lock_not_released")
    figures, run = finding["evidence"], judged.run
    waiter = run.clients["standing"][[one.group for one in groups.STANDING].index(groups.TRADES.group)]
    assert [one["queue_id"] for one in sorted(finding["queues"], key=lambda one: one["queue_id"])] == run.blocked_queues
    assert (figures["holder_client_id"], figures["waiter_client_id"]) == (run.clients["holder"][0], waiter)
    assert figures["next_holder_client_id"] == waiter
    assert "disconnected without unlocking" in finding["cause"]
    assert timedelta(seconds=30) < timedelta(milliseconds=figures["stood_still_ms"]) < timedelta(seconds=180)
    killed = datetime.fromtimestamp(run.began["killed"] / 1000).astimezone()
    assert abs(datetime.fromisoformat(figures["first_refused_at"]) - killed) < timedelta(seconds=60)


def test_a_poison_message_is_told_with_its_queue_and_offset(judged: Judged) -> None:
    """Incident I5: the other queues advance."""
    finding = judged.of(groups.POSTINGS, "poison_message")
    figures = finding["evidence"]
    blocked = judged.run.offsets["poison"]
    assert {(one["queue_id"], one["blocked_offset"]) for one in finding["queues"]} == set(blocked.items())
    assert (figures["other_queue_count"], figures["retries"]) == (3, "unlimited")
    assert "maxReconsumeTimes" in finding["do_next"]


def test_threads_without_queues_are_told_with_both_counts(judged: Judged) -> None:
    """Incident I5: more threads do not help an orderly group."""
    finding = judged.of(groups.BOOKINGS, "queue_parallelism_cap")
    figures = finding["evidence"]
    assert (figures["thread_count"], figures["queue_count"], figures["idle_thread_count"]) == (80, 2, 78)
    assert figures["consume_tps"] < 0.8 * figures["produce_tps"]
    (command,) = finding["commands"]
    assert command.endswith("-r 4 -w 4"), "twice the queues"
