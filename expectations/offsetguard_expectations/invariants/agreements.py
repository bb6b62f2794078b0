"""Agreements: sums across levels. Queues, groups, topics and brokers are made of one another and count the same."""

from offsetguard import tables
from offsetguard_expectations.invariant import Agreement, Invariant, ViolationMeans, rows_of, sum_of
from offsetguard_expectations.invariants import queues

_MARKED = " OR ".join(
    one.violated_when
    for one in vars(queues).values()
    if isinstance(one, Invariant)
    and one.table == tables.QUEUE_SNAPSHOTS
    and one.violation_means is ViolationMeans.TROUBLE
)
_LAG, _NET = "lag - beyond_end", "messages of lag less those beyond ends"
_GROUP_LAG = sum_of(tables.GROUP_FACTS, _LAG, _NET)

QUEUES_OF_GROUPS = Agreement(
    id="OG-V01",
    title="Groups stand for all queues",
    violation="Groups do not stand for all queues",
    figure=sum_of(tables.GROUP_FACTS, "queue_count", "queues"),
    expected=rows_of(tables.QUEUE_SNAPSHOTS, "queues"),
    meaning="Every sound row of a group's queue is counted in exactly one row of its group and topic.",
)
QUEUES_OF_TOPICS = Agreement(
    id="OG-V02",
    title="Topics stand for all their queues",
    violation="Topics do not stand for all their queues",
    figure=sum_of(tables.TOPIC_FACTS, "queue_count", "queues"),
    expected=rows_of(tables.TOPIC_QUEUE_SNAPSHOTS, "queues"),
    meaning="Every sound row of a topic's queue is counted in exactly one row of its topic.",
)
LAG_OF_GROUPS = Agreement(
    id="OG-V03",
    title="The lag of groups is that of their queues",
    violation="The lag of groups is not that of their queues",
    figure=_GROUP_LAG,
    expected=sum_of(tables.QUEUE_SNAPSHOTS, "max_offset - consumer_offset", _NET),
    meaning=(
        "What is known of queues adds up to the figures of groups: the lag, less what lies beyond the ends of queues,"
        " which is a figure of its own. Where an offset was set to the end of the number range, sums end there as well,"
        " and the levels are not compared."
    ),
)
LAG_OF_TOPICS = Agreement(
    id="OG-V04",
    title="The lag of topics is that of their groups",
    violation="The lag of topics is not that of their groups",
    figure=sum_of(tables.TOPIC_FACTS, _LAG, _NET),
    expected=_GROUP_LAG,
    meaning="The lag of all groups of a topic adds up to the topic's. Where a sum ends, the levels are not compared.",
)
MARKED_QUEUES_KEPT = Agreement(
    id="OG-V05",
    title="Every queue in trouble is among the suspects",
    violation="A queue in trouble is not among the suspects",
    figure=rows_of(tables.QUEUE_SNAPSHOTS, "queues in trouble", _MARKED, "a violated invariant"),
    expected=rows_of(tables.QUEUE_FACTS, "queues in trouble", "SIZE(violated_invariants) > 0"),
    meaning="Rules look at suspects only: a queue that breaks an invariant and is not among them would be passed over.",
    at_most=True,
)
SUSPECTS_OF_GROUPS = Agreement(
    id="OG-V06",
    title="Groups count all suspects",
    violation="Groups do not count all suspects",
    figure=sum_of(tables.GROUP_FACTS, "suspect_queue_count", "suspect queues"),
    expected=rows_of(tables.QUEUE_FACTS, "suspect queues"),
    meaning="Every suspect queue is counted in exactly one row of its group and topic, and kept once.",
)
QUEUES_OF_BROKERS = Agreement(
    id="OG-V07",
    title="Brokers stand for all queues of groups",
    violation="Brokers do not stand for all queues of groups",
    figure=sum_of(tables.BROKER_FACTS, "consumed_queue_count", "queues of groups"),
    expected=rows_of(tables.QUEUE_SNAPSHOTS, "queues"),
    meaning="Every sound row of a group's queue is counted at exactly one broker.",
)
QUEUES_OF_CLUSTER = Agreement(
    id="OG-V08",
    title="The cluster stands for the queues of its brokers",
    violation="The cluster does not stand for the queues of its brokers",
    figure=sum_of(tables.CLUSTER_FACTS, "consumed_queue_count", "queues of groups"),
    expected=QUEUES_OF_BROKERS.figure,
    meaning="The queues that groups have on all brokers add up to those of the whole cluster.",
)
LAG_OF_BROKERS = Agreement(
    id="OG-V09",
    title="The lag on brokers is that of groups",
    violation="The lag on brokers is not that of groups",
    figure=sum_of(tables.BROKER_FACTS, _LAG, _NET),
    expected=_GROUP_LAG,
    meaning="The lag of all groups adds up over brokers as it does over topics. Where a sum ends, it is not compared.",
)
LAG_OF_CLUSTER = Agreement(
    id="OG-V10",
    title="The lag of the cluster is that of groups",
    violation="The lag of the cluster is not that of groups",
    figure=sum_of(tables.CLUSTER_FACTS, _LAG, _NET),
    expected=_GROUP_LAG,
    meaning="The lag of all groups adds up to the cluster's. Where a sum ends, the levels are not compared.",
)
TOPIC_QUEUES_OF_BROKERS = Agreement(
    id="OG-V11",
    title="Brokers stand for all queues of topics",
    violation="Brokers do not stand for all queues of topics",
    figure=sum_of(tables.BROKER_FACTS, "topic_queue_count", "queues of topics"),
    expected=rows_of(tables.TOPIC_QUEUE_SNAPSHOTS, "queues"),
    meaning="Every sound row of a topic's queue is counted at exactly one broker.",
)
TOPIC_QUEUES_OF_CLUSTER = Agreement(
    id="OG-V12",
    title="The cluster stands for the topics' queues of its brokers",
    violation="The cluster does not stand for the topics' queues of its brokers",
    figure=sum_of(tables.CLUSTER_FACTS, "topic_queue_count", "queues of topics"),
    expected=TOPIC_QUEUES_OF_BROKERS.figure,
    meaning="The queues that topics have on all brokers add up to those of the whole cluster.",
)
LOSS_OF_CLUSTER = Agreement(
    id="OG-V13",
    title="The losses of the cluster are those of groups",
    violation="The losses of the cluster are not those of groups",
    figure=sum_of(tables.CLUSTER_FACTS, "lost", "lost messages"),
    expected=sum_of(tables.GROUP_FACTS, "lost", "lost messages"),
    meaning="The lost messages of all groups add up to the cluster's. Where a sum ends, the levels are not compared.",
)
STATE_OF_QUEUES = Agreement(
    id="OG-V14",
    title="Every queue has its folded state",
    violation="Queues have no folded state",
    figure=rows_of(tables.QUEUE_STATE, "queues"),
    expected=rows_of(tables.QUEUE_SNAPSHOTS, "queues"),
    meaning=(
        "Every sound row of a group's queue was folded into the state of that queue. An interval that is older than the"
        " state (a backfill) folds nothing and is not compared."
    ),
)
