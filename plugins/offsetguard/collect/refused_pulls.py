"""On which masters the settings of a consumer group let no client of it pull, and what `mqadmin` lets them again.

A broker refuses pulls, in this order: all of them (`brokerPermission` without read), those of a group that it does not
know (code 26; it makes one by itself unless `autoCreateSubscriptionGroup=false`), of a group with `consumeEnable=false`
(code 16), of a topic without read permission (code 16), of broadcasting clients with `consumeBroadcastEnable=false`
(code 16), and of a topic that it forbids to the group (5.x, `forbiddenTable`, code 16). Those of topics and of all of a
broker stand in `topic_settings` and `broker_snapshots`. Of a topic that it does not have it knows nothing (code 17).
Source: PullMessageProcessor, PopMessageProcessor, SubscriptionGroupManager#findSubscriptionGroupConfig (4.9.7, 5.3.3,
5.5.0). A heartbeat of a group that the broker does not know is taken by 4.x and passed over by 5.x.
"""

import shlex
from collections.abc import Iterable, Sequence

from offsetguard.collect.broker_reading import BrokerReading
from offsetguard.collect.group_members import GroupMembers
from offsetguard.collect.landing import Row
from offsetguard.collect.system_names import TopicKind, is_lite_topic, topic_kind
from offsetguard.model.rocketmq import as_written
from offsetguard.sources.rocketmq.brokers import SubscriptionGroupConfig


def refusing_columns(group: str, masters: Sequence[BrokerReading], members: GroupMembers | None) -> Row:
    """Return the columns of `group_snapshots` that say where a group may not pull; `members`: None = not known."""
    known = {one.broker_name: settings for one in masters if (settings := (one.groups or {}).get(group)) is not None}
    disabled = [name for name, settings in known.items() if settings.consume_enable is False]
    broadcasts = members is not None and members.broadcasting
    unicast = [name for name, one in known.items() if broadcasts and one.consume_broadcast_enable is False]
    forbidden = [f"{name} {topic}" for name, one in known.items() for topic in one.forbidden_topics]
    uncreated = [one.broker_name for one in masters if _lacks(one, group, members)]
    orderly = [name for name, one in known.items() if one.consume_message_orderly]
    like = next((known[name] for name in (*disabled, *unicast, *orderly, *known)), None)
    to_be_changed = bool(disabled or unicast or uncreated or orderly)
    return {
        "consume_enabled": _all_of(settings.consume_enable for settings in known.values()),
        "consume_broadcast_enabled": _all_of(settings.consume_broadcast_enable for settings in known.values()),
        "consume_message_orderly": _all_of(settings.consume_message_orderly for settings in known.values()),
        "disabled_broker_names": sorted(disabled) or None,
        "no_broadcast_broker_names": sorted(unicast) or None,
        "uncreated_broker_names": sorted(uncreated) or None,
        "forbidden_topics": sorted(forbidden) or None,
        "missing_topics": _missing_topics(group, masters, members),
        "enabling_options": enabling_options(like, broadcasts=broadcasts) if to_be_changed else None,
        "reset_settings": ", ".join(like.others_set) or None if like and to_be_changed else None,
    }


def enabling_options(settings: SubscriptionGroupConfig | None, *, broadcasts: bool) -> str:
    """Return what `mqadmin updateSubGroup` has to be given so that a group may consume and keeps its other settings.

    It sets all of them: what it is not given it makes a default, and switches broadcasting off. For `others_set` it has
    no option. The policy is quoted for a shell.
    `settings`: of the group on that master or another one; None: nothing is known of them.
    """
    if settings is None:
        return "-s true -m true -d true"
    given = {
        "m": settings.consume_from_min_enable,
        "d": broadcasts or settings.consume_broadcast_enable,
        "o": settings.consume_message_orderly,
        "q": settings.retry_queue_nums,
        "r": settings.retry_max_times,
        "p": shlex.quote(settings.retry_policy) if settings.retry_policy else None,
        "i": settings.broker_id,
        "w": settings.which_broker_when_consume_slowly,
        "a": settings.notify_consumer_ids_changed_enable,
    }
    return " ".join(
        ["-s true", *(f"-{name} {as_written(value)}" for name, value in given.items() if value is not None)]
    )


def _missing_topics(group: str, masters: Sequence[BrokerReading], members: GroupMembers | None) -> list[str] | None:
    if members is None or any(one.topics is None for one in masters):
        return None
    missing = [
        topic
        for topic in members.subscribed_topics
        if not any(topic in (one.topics or ()) for one in masters)
        and topic_kind(topic) is TopicKind.NORMAL
        and not is_lite_topic(topic)
    ]
    if not missing:
        return None
    committed = {topic for one in masters for topic in one.committed_offsets.topics_of(group)}
    return sorted(f"{'committed' if topic in committed else 'uncommitted'} {topic}" for topic in missing)


def _lacks(master: BrokerReading, group: str, members: GroupMembers | None) -> bool:
    """Whether a master has a topic or commits of a group, does not know the group, and will not make it."""
    if master.groups is None or group in master.groups or master.makes_groups is not False:
        return False
    subscribed = members.subscribed_topics if members is not None else ()
    return master.has_commits(group) or any(topic in (master.topics or ()) for topic in subscribed)


def _all_of(values: Iterable[bool | None]) -> bool | None:
    """Return False where one is, True where all are, and None where one is not known, or there is none."""
    found = set(values)
    return False if False in found else None if None in found or not found else True
