"""Every command that a text prints does what the text says, run as printed in a shell, on both lines.

The names of topic and group have characters that a shell would take for its own.
"""

import asyncio
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from offsetguard.collect.collector import collect_round
from offsetguard.facts.interval import IntervalFacts
from offsetguard.facts.rounds import facts_of_rounds
from offsetguard.judge.evidence.lookups import command_figures
from offsetguard.judge.rule import Finding, Rule, Severity, Texts
from offsetguard_peers.collecting import config_of, now_interval
from offsetguard_peers.printed_commands import run_as_printed, templates, versions_of
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, produce, producer_of, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

TOPIC, GROUP = "printed|orders", "printed|worker"
DEAD_LETTERS = f"%DLQ%{GROUP}"
MESSAGES = 40
SHOWS = {
    "BROKER_STATUS": "commitLogDiskRatio",
    "CLUSTER_LIST": "broker-a",
    "LET_CONSUME": "consumeEnable=true",
    "LET_READ_BROKER": "update broker config success",
    "LET_READ_TOPIC": "perm",
    "MEMBERS": TOPIC,
    "MEMBERS_OF_EACH_BROKER": TOPIC,
    "PRODUCERS_OF_EACH_BROKER": "producer",
    "PROGRESS": TOPIC,
    "PROGRESS_BY_CLIENT": TOPIC,
    "RATES_OF_CLIENTS": "#ConsumerRunningInfoFile",
    "REPLICATION": "#MasterAddr",
    "SHOW_BLOCKING": "Keys:",
    "SHOW_COMMITTED": "Keys:",
    "STACKS": "#ConsumerRunningInfoFile",
    "STACK_OF_CLIENT": "ConsumeMessageThread",
    "STACK_OF_HOLDER": "ConsumeMessageThread",
    "WHERE_DEAD_LETTERS_LIE": "broker-a",
}
"""What the output of those names that only look, or allow what is allowed."""


def facts_now(cluster: RocketMQCluster) -> IntervalFacts:
    config = config_of(cluster)
    snapshot = asyncio.run(collect_round("main", config, now_interval(), started_at=datetime.now(UTC)))
    return facts_of_rounds([snapshot], config)


def printed(template: str, facts: IntervalFacts, figures: dict[str, Any]) -> list[str]:
    """Return the lines that a finding prints of a command."""
    texts = {"default": Texts(**dict.fromkeys(("summary", "cause", "do_next"), "-"), **_CHINESE, commands=(template,))}
    rule = Rule(
        id="any",
        severity=Severity.INFO,
        place=1,
        needs=(),
        means="-",
        texts=texts,
        title="-",
        title_zh="-",
        recovered="-",
        recovered_zh="-",
    )
    return list(Finding(rule, facts.cluster, GROUP, TOPIC, Severity.INFO, figures).commands)


_CHINESE = dict.fromkeys(("summary_zh", "cause_zh", "do_next_zh"), "-")


def test_every_printed_command_works(cluster: RocketMQCluster, tmp_path: Path) -> None:
    admin = Admin(cluster)
    admin.create_topic(TOPIC, queues=2)
    admin.create_topic(DEAD_LETTERS, queues=1)
    admin.create_group(GROUP)
    began_at = datetime.now(UTC)
    produce(cluster, TOPIC, MESSAGES)
    producer_of(cluster)
    with running_consumers(cluster, [ConsumerSpec(GROUP, {TOPIC: "*"}, orderly=True)]) as consumers:
        consumers.wait_until_consumed(MESSAGES)
        wait_until(lambda: _committed(admin) == MESSAGES, "all to be committed")
        facts = facts_now(cluster)
        client_id = consumers.client_ids[0]
        figures: dict[str, Any] = {
            **command_figures(facts, config_of(cluster)),
            "client_id": client_id,
            "holder_client_id": client_id,
            "broker_name": "broker-a",
            "queue_id": 0,
            "blocked_offset": 3,
            "consumer_offset": 4,
            "dead_letter_topic": DEAD_LETTERS,
            "lagging_topic": TOPIC,
            **dict.fromkeys(("first_moved_at", "moved_after", "since"), began_at),
            "wanted_queue_nums": 4,
            "longer_hours": 96,
            "refusing_addresses": cluster.masters[0].address,
            "enabling_options": "-s true -m true -d true -q 1 -r 16",
        }
        outputs = {}
        for name, template in templates().items():
            if name in ("DELETE_GROUP", "PRINT_GIVEN_UP"):  # later; and where one is given up: test_held_back.py
                continue
            lines = printed(template, facts, figures)
            assert bool(lines) == (cluster.version in versions_of(name)), name
            for line in lines:
                outputs[name] = _run(cluster, line, tmp_path)
        missing = {name: outputs[name] for name, text in SHOWS.items() if name in outputs and text not in outputs[name]}
        assert missing == {}
        _check_what_was_changed(cluster, admin)
    (deletion,) = printed(templates()["DELETE_GROUP"], facts, figures)
    # 5.x then deletes the group's own topics, which it can do only with the timer wheel that our brokers do without
    said = run_as_printed(cluster, deletion, tmp_path).stdout
    assert f"delete subscription group [{GROUP}] from broker" in said
    assert _committed(admin) == 0, "-r deletes the offsets, too"


def _run(cluster: RocketMQCluster, line: str, folder: Path) -> str:
    result = run_as_printed(cluster, line, folder)
    said = result.stdout + result.stderr
    assert result.returncode == 0, (line, said)
    assert not re.search(r"Exception: ", said), (line, said)
    assert "usage:" not in said, (line, said)
    return said


def _committed(admin: Admin) -> int:
    places = admin.queues(TOPIC)
    return sum(admin.committed(GROUP, TOPIC, queue_id, broker=broker) or 0 for broker, queue_id in places)


def _check_what_was_changed(cluster: RocketMQCluster, admin: Admin) -> None:
    assert {queue_id for _, queue_id in admin.queues(TOPIC)} == {0, 1, 2, 3}
    time.sleep(1.0)
    (master, *_) = [one for one in facts_now(cluster).brokers if one.broker_id == 0]
    assert master.file_reserved_time_hours == 96
