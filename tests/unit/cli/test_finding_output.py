"""What people read of findings: what only informs, of many groups, is one entry that names and counts them."""

from pathlib import Path

import click

from offsetguard.cli.finding_output import MAX_GROUPS_NAMED, SETTINGS, findings_as_text, how_settings_hold
from offsetguard.judge.registry import judge
from offsetguard.judge.rule import Finding
from offsetguard_peers.cases.rules import config_of, facts_of


def found(groups: list[str], *, lag: int = 10) -> list[Finding]:
    """Judge a cluster in which log lines are about each group, and each reads from the slave."""
    facts = {
        "log_lines": [
            {"consumer_group": one, "kind": "client_not_in_members", "source": "app-1", "lines": [1, 20, 20]}
            for one in groups
        ],
        "groups": [
            {
                "consumer_group": one,
                "effective_lag": lag,
                "online_client_count": 1,
                "inflight": 0,
                "reads_moved_to_slave": True,
                "slave_read_broker_names": ["broker-a"],
                "slave_read_since_s_ago": 600,
            }
            for one in groups
        ],
        "queues": [
            {"consumer_group": one, "samples": [[240 - 60 * n, 0, 50 * n, None, 50 * n + lag] for n in range(5)]}
            for one in groups
        ],
    }
    return list(judge(facts_of(facts), config_of([])).findings)


def heads(findings: list[Finding]) -> list[str]:
    lines = [click.unstyle(line) for line in findings_as_text(findings)]
    return [line for line in lines if line and not line.startswith(" ")]


def test_what_informs_about_many_groups_is_one_entry_a_cluster() -> None:
    groups = [f"group-{number:02}" for number in range(MAX_GROUPS_NAMED + 5)]
    findings = found(groups)
    assert len(findings) == 2 * len(groups)
    assert heads(findings) == [
        "INFO  groups read from a slave: 25 consumer groups  [reads_moved_to_slave]",
        "INFO  log lines are the noise of a rebalance: 25 consumer groups  [rebalance_noise]",
    ]
    assert f"  {', '.join(groups[:MAX_GROUPS_NAMED])} and 5 more" in list(findings_as_text(findings))


def test_one_group_is_told_with_all_that_is_known() -> None:
    assert heads(found(["billing"])) == [
        "INFO  billing reads orders from the slave of broker-a  [reads_moved_to_slave, OK]",
        "INFO  log lines about billing are the noise of a rebalance  [rebalance_noise, OK]",
    ]


def test_what_warns_has_an_entry_for_each_group() -> None:
    warnings = [one for one in heads(found(["billing", "trade"], lag=20_000)) if one.startswith("WARNING")]
    assert [one.rpartition("[")[2] for one in warnings] == ["reads_moved_to_slave, FALLING_BEHIND]"] * 2


def test_a_file_of_settings_that_was_named_holds_already() -> None:
    found = [{"do_next": f"raise request_timeout_ms in {SETTINGS}"}]
    assert list(how_settings_hold(found, Path("ours.yml"))) == []
    assert len(list(how_settings_hold(found * 2, None))) == 1
