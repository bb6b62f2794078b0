"""Slack: one message as Block Kit blocks, within Slack's limits whatever the number of groups and queues.

Limits (https://docs.slack.dev/reference/block-kit/blocks): 50 blocks, header 150, section text 3,000, 10 fields of
2,000, context 10 elements, all blocks together about 13,000 characters (msg_blocks_too_long, slackapi/bolt-js 2509).
What does not fit is counted, never cut silently.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offsetguard.messages import wording
from offsetguard.messages.hostile import harmless_view, shorten
from offsetguard.messages.mrkdwn import code, fit, fit_plain, link, quiet, units
from offsetguard.rules.text import format_moment

if TYPE_CHECKING:
    from offsetguard.messages.view import FigureView, IncidentView, MessageView, QueueView

Block = dict[str, Any]

EVENT_TYPE = "offsetguard_message"
MAX_BLOCKS = 50
MAX_TOTAL_UNITS = 12_000  # of the blocks as JSON, keys and punctuation included: well below what Slack counts
FIELDS_SHOWN = 10
QUEUES_SHOWN = 5
NAMES_SHOWN = 10
BESIDE_SHOWN = 5

_MARKS = {"critical": "🔴", "warning": "🟠", "info": "🔵", wording.RESOLVED: "✅"}


@dataclass(frozen=True, slots=True)
class SlackMessage:
    """What chat.postMessage takes."""

    text: str  # the notification, and what a screen reader reads
    blocks: list[Block]
    metadata: dict[str, Any]  # carries the idempotency key, so that a message can be found again
    in_channel: bool = True  # a reply that is shown in the channel, too: what people must not miss


def render_slack(view: MessageView, *, idempotency_key: str) -> SlackMessage:
    """Return the message for one channel: worst incident first, as many in full as fit, the rest by name or count."""
    safe = harmless_view(view)
    head, foot = _head(safe), _foot(safe)
    incidents = safe.firing or safe.resolved
    tell = _story if safe.firing else _ending
    after = _resolved_in_short(safe.resolved) if safe.firing else []
    blocks = head
    told = 0
    for incident in incidents:
        story = tell(incident, alone=len(incidents) == 1)
        rest = _not_in_full(incidents[told + 1 :])
        if not _fits([*blocks, *story, *rest, *after, *foot]):
            break
        blocks = [*blocks, *story]
        told += 1
    return SlackMessage(
        text=_notification(safe),
        blocks=[*blocks, *_not_in_full(incidents[told:]), *after, *foot],
        metadata={
            "event_type": EVENT_TYPE,
            "event_payload": {
                "idempotency_key": idempotency_key,
                "thread_key": view.thread_key,
                "rule_id": safe.rule_id,
                "cluster": safe.cluster,
            },
        },
    )


def total_units(blocks: list[Block]) -> int:
    """Return the size of blocks as JSON, in UTF-16 units."""
    return units(json.dumps(blocks, ensure_ascii=False))


def _fits(blocks: list[Block]) -> bool:
    return len(blocks) <= MAX_BLOCKS and total_units(blocks) <= MAX_TOTAL_UNITS


def _head(view: MessageView) -> list[Block]:
    status = wording.status(view)
    title = f"{_MARKS.get(status, _MARKS['info'])} {status.capitalize()}: {wording.news(view)}"
    return [
        {"type": "header", "text": _plain(title, 150)},
        _context(f"Cluster {code(view.cluster)}", f"Team {code(view.team)}", wording.why_now(view)),
    ]


def _story(incident: IncidentView, *, alone: bool) -> list[Block]:
    """Tell one incident; alone, the header has its headline already."""
    heading = f"{_MARKS.get(incident.severity, _MARKS['info'])} *{quiet(wording.headline(incident), 400)}*"
    story: list[Block] = [] if alone else [{"type": "divider"}, _section(heading)]
    story.append({"type": "section", "text": _plain(incident.cause or "Cause unknown.", 1_500)})
    if incident.do_next:
        story.append({"type": "section", "text": _plain(f"What to do: {incident.do_next}", 1_500)})
    if fields := [*_name_fields(incident), *(_field(figure) for figure in incident.figures)]:
        story.append({"type": "section", "fields": fields[:FIELDS_SHOWN]})
    lines = [_queue_line(queue) for queue in incident.queues[:QUEUES_SHOWN]]
    hidden = wording.more(incident.queue_count - len(lines), "queue")
    if lines:
        story.append(_section("\n".join([*lines, *([hidden] if hidden else [])])))
    for head, told, untold in wording.beside(incident, BESIDE_SHOWN):
        text = "\n".join([f"{head}:", *(f"• {shorten(line, 120)}" for line in told), *([untold] if untold else [])])
        story.append({"type": "section", "text": _plain(text, 700)})
    story.append(_context(f"Since {wording.history(incident)}", *_peak(incident)))
    return story


def _ending(incident: IncidentView, *, alone: bool) -> list[Block]:
    heading = f"{_MARKS[wording.RESOLVED]} *{quiet(wording.ending(incident), 400)}*"
    story: list[Block] = [] if alone else [{"type": "divider"}, _section(heading)]
    story.append({"type": "section", "text": _plain(f"It was: {incident.cause}", 1_500)})
    if fields := _name_fields(incident):
        story.append({"type": "section", "fields": fields})
    story.append(_context(f"Lasted {wording.history(incident)}", *_peak(incident)))
    return story


def _resolved_in_short(resolved: tuple[IncidentView, ...]) -> list[Block]:
    if not resolved:
        return []
    lines = [
        f"{_MARKS[wording.RESOLVED]} {_name(incident)} {quiet(wording.resolution(incident), 120)}, "
        f"lasted {wording.history(incident)}"
        for incident in resolved[:NAMES_SHOWN]
    ]
    hidden = wording.more(len(resolved) - NAMES_SHOWN, "resolved finding")
    text = "\n".join(["*Resolved*", *lines, *([hidden] if hidden else [])])
    return [{"type": "divider"}, _section(text)]


def _not_in_full(incidents: tuple[IncidentView, ...]) -> list[Block]:
    if not incidents:
        return []
    names = ", ".join(_name(incident) for incident in incidents[:NAMES_SHOWN])
    hidden = wording.more(len(incidents) - NAMES_SHOWN, "finding")
    return [_section(f"*Also:* {names}{f' {hidden}' if hidden else ''}")]


def _foot(view: MessageView) -> list[Block]:
    links = [
        link(url, label)
        for url, label in ((view.page_url, "Open in Airflow"), (view.data_docs_url, "Data Docs"))
        if url is not None
    ]
    rule = f"Rule {code(view.rule_id)} · interval {format_moment(view.interval_start)}"
    return [_context(*links, rule)]


def _name(incident: IncidentView) -> str:
    return code(incident.consumer_group or incident.topic or "the cluster", 120)


def _name_fields(incident: IncidentView) -> list[Block]:
    named = (("Consumer group", incident.consumer_group), ("Topic", incident.topic))
    return [_mrkdwn(f"*{label}*\n{code(name)}") for label, name in named if name]


def _field(figure: FigureView) -> Block:
    label = quiet(wording.label(figure), 100)
    return _mrkdwn(f"*{label}*\n{quiet(figure.value, 200)}")


def _peak(incident: IncidentView) -> list[str]:
    return [f"Peak {quiet(incident.peak, 200)}"] if incident.peak else []


def _queue_line(queue: QueueView) -> str:
    figures = ", ".join(f"{figure.label} {figure.value}" for figure in queue.figures)
    where = code(f"{queue.broker_name} queue {queue.queue_id}", 200)
    return f"• {where} {quiet(figures, 250)}" if figures else f"• {where}"


def _notification(view: MessageView) -> str:
    """Return all of it in a few lines without markup: what a notification shows and a screen reader reads."""
    lines = [wording.subject(view)]
    lines += [
        f"{incident.consumer_group or view.cluster} ({incident.topic or 'no single topic'}): {incident.cause}"
        for incident in (view.firing or view.resolved)[:5]
    ]
    return fit("\n".join(lines), 4_000)


def _context(*texts: str) -> Block:
    return {"type": "context", "elements": [_mrkdwn(text) for text in texts if text]}


def _section(text: str) -> Block:
    return {"type": "section", "text": _mrkdwn(text)}


def _mrkdwn(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text, "verbatim": True}  # verbatim: Slack makes no links and mentions of its own


def _plain(text: str, limit: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": fit_plain(text, limit), "emoji": False}
