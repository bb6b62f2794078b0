"""Reader for exactly the text that brokers put into bodies of 203; None for every other text.

As `plain_form`, and under the same rules: a round has one such body for each group, and this is four times quicker.
Source: bodies of 4.9.8, 5.3.3 and 5.5.1; bean fields come sorted by name, without spaces, and null ones are left out.
"""

from __future__ import annotations

import json
import re

from offsetguard.sources.rocketmq.bodies import Connection, ConsumerConnections, Subscription
from offsetguard.sources.rocketmq.offset_table import INT64_RANGE
from offsetguard.sources.rocketmq.plain_form import NEXT, NUMBER, STRING, plain_text

_NUMBERS = rf"(?:{NUMBER}(?:,{NUMBER})*)?"
_STRINGS = r'(?:"[^"\\\x00-\x1f]*+"(?:,(?!\])|(?=\])))*'
_CONNECTION = re.compile(
    rf'\{{"clientAddr":{STRING},"clientId":{STRING},"language":{STRING},"version":({NUMBER})\}}{NEXT}'
)
_CONNECTION_SIGNS = len('{"clientAddr":"","clientId":"","language":"","version":}')
_SUBSCRIPTION = re.compile(
    rf'{STRING}:\{{"classFilterMode":(true|false),"codeSet":\[({_NUMBERS})\],"expressionType":{STRING},'
    rf'"subString":{STRING},"subVersion":({NUMBER}),"tagsSet":\[({_STRINGS})\],"topic":{STRING}\}}{NEXT}'
)
_SUBSCRIPTION_SIGNS = len(
    '"":{"classFilterMode":,"codeSet":[],"expressionType":"","subString":"","subVersion":,"tagsSet":[],"topic":""}'
)
_START = '{"connectionSet":['
_BETWEEN = re.compile(
    rf'\],"consumeFromWhere":{STRING},"consumeType":{STRING},"messageModel":{STRING},"subscriptionTable":\{{'
)


def plain_consumer_connections(body: bytes) -> ConsumerConnections | None:
    """Read a body of 203 with at least one client and one subscription."""
    text = plain_text(body)
    between = _BETWEEN.search(text) if text is not None and text.startswith(_START) else None
    if text is None or between is None or not text.endswith("}}"):
        return None
    clients = _CONNECTION.findall(text, len(_START), between.start())
    subscribed = _SUBSCRIPTION.findall(text, between.end(), len(text) - len("}}"))
    if not (
        _covered(clients, _CONNECTION_SIGNS) == between.start() - len(_START)
        and _covered(subscribed, _SUBSCRIPTION_SIGNS) == len(text) - len("}}") - between.end()
    ):
        return None
    connections = []
    for address, client_id, language, version in clients:
        if int(version) not in INT64_RANGE:
            return None
        connections.append(Connection(client_id, address, language or "OTHER", int(version)))
    subscriptions = {}
    for topic, _, _, expression_type, sub_string, sub_version, tags, _ in subscribed:
        if int(sub_version) not in INT64_RANGE:
            return None
        named = frozenset(json.loads(f"[{tags}]")) if tags else frozenset()
        subscriptions[topic] = Subscription(topic, sub_string, expression_type, named, int(sub_version))
    if len(subscriptions) < len(subscribed):
        return None
    from_where, consume_type, model = between.groups()
    return ConsumerConnections(tuple(connections), consume_type, model, from_where, subscriptions)


def _covered(found: list[tuple[str, ...]], signs: int) -> int:
    """Return how much of a text the entries take that were found in it, with a comma between any two; 0 = none."""
    return sum(map(len, map("".join, found))) + len(found) * (signs + 1) - 1 if found else 0
