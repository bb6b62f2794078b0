"""Agreements: sums across levels. Queues, groups, topics and brokers are made of one another and count the same."""

from __future__ import annotations

from offsetguard.rules.rule import Severity
from offsetguard.tables import (
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    QUEUE_FACTS,
    QUEUE_SNAPSHOTS,
    TOPIC_FACTS,
    TOPIC_QUEUE_SNAPSHOTS,
)
from offsetguard_expectations import queue_snapshots
from offsetguard_expectations.agreement import Agreement, distinct, rows_of, sum_of
from offsetguard_expectations.fact_tables import REPORT_IT
from offsetguard_expectations.invariant import ViolationMeans

_MARKED = " OR ".join(
    one.violated_when
    for one in queue_snapshots.INVARIANTS
    if one.violation_means is ViolationMeans.TROUBLE and not one.asks_the_manifest
)
_GROUP_LAG = sum_of(GROUP_FACTS, "lag", "messages of lag")

QUEUES_OF_GROUPS = Agreement(
    id="OG-V01",
    title="Groups stand for all queues",
    violation="Groups do not stand for all queues",
    figure=sum_of(GROUP_FACTS, "queue_count", "queues"),
    expected=rows_of(QUEUE_SNAPSHOTS, "queues"),
    meaning="Every sound row of a group's queue is counted in exactly one row of its group and topic.",
    do_next=REPORT_IT,
)
QUEUES_OF_TOPICS = Agreement(
    id="OG-V02",
    title="Topics stand for all their queues",
    violation="Topics do not stand for all their queues",
    figure=sum_of(TOPIC_FACTS, "queue_count", "queues"),
    expected=rows_of(TOPIC_QUEUE_SNAPSHOTS, "queues"),
    meaning="Every sound row of a topic's queue is counted in exactly one row of its topic.",
    do_next=REPORT_IT,
)
LAG_OF_GROUPS = Agreement(
    id="OG-V03",
    title="The lag of groups is that of their queues",
    violation="The lag of groups is not that of their queues",
    figure=_GROUP_LAG,
    expected=sum_of(QUEUE_SNAPSHOTS, "max_offset - consumer_offset", "messages of lag"),
    meaning=(
        "The lag that is known of queues adds up to the lag of groups. Where an offset was set to the end of the number"
        " range, sums end there as well, and the levels are not compared."
    ),
    do_next=REPORT_IT,
)
LAG_OF_TOPICS = Agreement(
    id="OG-V04",
    title="The lag of topics is that of their groups",
    violation="The lag of topics is not that of their groups",
    figure=sum_of(TOPIC_FACTS, "lag", "messages of lag"),
    expected=_GROUP_LAG,
    meaning="The lag of all groups of a topic adds up to the topic's. Where a sum ends, the levels are not compared.",
    do_next=REPORT_IT,
)
MARKED_QUEUES_KEPT = Agreement(
    id="OG-V05",
    title="Every queue in trouble is among the suspects",
    violation="A queue in trouble is not among the suspects",
    figure=rows_of(QUEUE_SNAPSHOTS, "queues in trouble", _MARKED, "a violated invariant"),
    expected=rows_of(QUEUE_FACTS, "queues in trouble", "SIZE(violated_invariants) > 0"),
    meaning="Rules look at suspects only: a queue that breaks an invariant and is not among them would be passed over.",
    do_next=REPORT_IT,
    at_most=True,
)
GROUPS_COMPLETE = Agreement(
    id="OG-V06",
    title="Every group that has offsets was asked about",
    violation="Groups have offsets and were not asked about",
    figure=distinct(GROUP_FACTS, "consumer_group", "groups"),
    expected=rows_of(GROUP_SNAPSHOTS, "groups"),
    meaning=(
        "More groups have offsets than the round has rows of groups: settings, clients and model of the others are"
        " unknown, and rules that need them say so. A request for the groups was refused or came back half."
    ),
    do_next="Look at OG-I04 and `gaps.jsonl` for the request that failed.",
    violation_means=ViolationMeans.TROUBLE,
    severity=Severity.WARNING,
    at_most=True,
)

AGREEMENTS = (
    QUEUES_OF_GROUPS,
    QUEUES_OF_TOPICS,
    LAG_OF_GROUPS,
    LAG_OF_TOPICS,
    MARKED_QUEUES_KEPT,
    GROUPS_COMPLETE,
)
