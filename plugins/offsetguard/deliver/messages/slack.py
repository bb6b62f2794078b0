"""Slack: one message as Block Kit blocks, within Slack's limits whatever the number of groups and queues.

At most 50 blocks, and all of them together about 13,000 characters (msg_blocks_too_long, slackapi/bolt-js 2509); the
limits of single pieces are in `slack_blocks`. The worst incident is always shown, in brief where in full is too long;
what does not fit is counted, never cut silently.
A thread's parent shows the newest message; below it stands each message as it was sent, and of what has resolved only
the lines that are new (`channels.slack`). A warning stands by itself in at most 15 lines: headline, cause, next step,
links of the worst; figures, queues and further incidents follow as a message of their own in its thread.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from typing import Any

from offsetguard.catalogue import Catalogue
from offsetguard.deliver.messages import slack_blocks as blocks_of
from offsetguard.deliver.messages import wording
from offsetguard.deliver.messages.slack_blocks import Block, code, fit, link, quiet, units
from offsetguard.deliver.messages.wording import harmless_view, shorten
from offsetguard.model.views import DetailsView, IncidentView, MessageView, NotificationReason, QueueView

EVENT_TYPE = "offsetguard_message"
MAX_BLOCKS = 50
MAX_TOTAL_UNITS = 12_000  # of the blocks as JSON, keys and punctuation included: well below what Slack counts
MAX_INCIDENTS = 60  # looked at: not even half as many fit in full or by name
MAX_LINK = 400  # characters; better no link than no message
FRAMES_SHOWN = 3  # of a stack: the innermost two, and the listener
NOTIFIED = 5  # incidents in the notification

_MARKS = {"critical": "🔴", "warning": "🟠", "info": "🔵", wording.RESOLVED: "✅"}
_ENDS = {NotificationReason.RESOLVED, NotificationReason.ALL_RESOLVED}


@dataclass(frozen=True, slots=True)
class _Room:
    """How much is shown: counts of lines, and characters of one text."""

    sentence: int = 1_500
    name: int = 300
    value: int = 250
    small: int = 300
    fields: int = blocks_of.FIELDS_SHOWN
    queues: int = 5
    beside: int = 5
    course: int = blocks_of.CONTEXT_SHOWN
    names: int = 10  # of incidents that are not shown in full
    notes: int = 5
    commands: int = 20
    stories: int = MAX_INCIDENTS  # incidents that are shown in full


_FULL = _Room()
_BRIEF = _Room(sentence=400, name=80, value=80, small=120, fields=4, queues=0, beside=0, course=3, names=3, notes=2)
_IN_CHANNEL = replace(_BRIEF, sentence=330, name=150, fields=0, course=5, notes=5, commands=1, stories=1)


@dataclass(frozen=True, slots=True)
class SlackMessage:
    """What chat.postMessage takes."""

    text: str  # the notification, and what a screen reader reads
    blocks: list[Block]
    metadata: dict[str, Any]  # carries the idempotency key, so that a message can be found again
    reply_blocks: list[Block] | None = None  # shorter, for a reply below its parent; None: `blocks`
    in_channel: bool = True  # a reply that is shown in the channel, too: what people must not miss
    follow_up: DetailsView | None = None  # what it leaves to its thread
    is_details: bool = False  # these: a reply that is no newer state of its thread


def render_slack(view: MessageView, *, idempotency_key: str, in_threads: bool = True) -> SlackMessage:
    """Return the message for one channel: worst incident first, as many in full as fit, the rest by name or count.

    `in_threads`: the rest of a warning follows in its thread, as what this makes of its `DetailsView`.
    """
    safe = harmless_view(_bounded(view))
    words = wording.reader(safe)
    is_an_end, is_details = view.reason in _ENDS, isinstance(view, DetailsView)
    writer = _Writer(safe, words, _FULL)
    details = writer.details() if in_threads else []
    if is_details:
        blocks, shown = details, 1
    else:
        blocks, shown = (replace(writer, room=_IN_CHANNEL) if details else writer).blocks()
    if shown == 0:
        blocks, _ = _Writer(safe, words, _BRIEF).blocks()
    return SlackMessage(
        text=writer.details_head() if is_details else _notification(safe, words),
        blocks=blocks,
        metadata={
            "event_type": EVENT_TYPE,
            "event_payload": {
                "idempotency_key": idempotency_key,
                "thread_key": view.thread_key,
                "rule_id": safe.rule_id,
                "cluster": safe.cluster,
            },
        },
        reply_blocks=writer.ends() if is_an_end else None,
        in_channel=not is_an_end and not is_details,
        follow_up=DetailsView.of(view) if details and not is_details and not is_an_end else None,
        is_details=is_details,
    )


def total_units(blocks: list[Block]) -> int:
    """Return the size of blocks as JSON, in UTF-16 units."""
    return units(json.dumps(blocks, ensure_ascii=False))


def _bounded(view: MessageView) -> MessageView:
    """Return the view without what cannot be shown anyway."""
    bounded = wording.bounded(view, MAX_INCIDENTS)
    return bounded.model_copy(
        update={
            "firing": tuple(map(_bounded_incident, bounded.firing)),
            "resolved": tuple(map(_bounded_incident, bounded.resolved)),
            "page_url": _short(view.page_url),
            "data_docs_url": _short(view.data_docs_url),
        }
    )


def _bounded_incident(incident: IncidentView) -> IncidentView:
    return incident.model_copy(
        update={
            "queues": incident.queues[: _FULL.queues],
            "changes": incident.changes[: _FULL.beside],
            "explains": incident.explains[: _FULL.beside],
            "cannot_tell": incident.cannot_tell[: _FULL.beside],
            "figures": incident.figures[: _FULL.fields],
            "incident_url": _short(incident.incident_url),
            "group_url": _short(incident.group_url),
            "acknowledge_url": _short(incident.acknowledge_url),
            "silence_url": _short(incident.silence_url),
            "console_url": _short(incident.console_url),
        }
    )


def _short(url: str | None) -> str | None:
    return url if url is not None and len(url) <= MAX_LINK else None


def _fits(blocks: list[Block]) -> bool:
    return len(blocks) <= MAX_BLOCKS and total_units(blocks) <= MAX_TOTAL_UNITS


def _notification(view: MessageView, words: Catalogue) -> str:
    """Return all of it in a few lines without markup: what a notification shows and a screen reader reads."""
    shown = (view.firing or view.resolved)[:NOTIFIED]
    word = wording.status_word(wording.status(view), words)
    lines = [f"[{word.upper()}] {view.cluster} · {wording.in_brief(view, words)}"]
    lines += [
        f"{one.consumer_group or view.cluster} ({one.topic or words.say('slack_no_topic')}): {one.cause}"
        for one in shown
    ]
    return fit("\n".join(lines), 4_000)


@dataclass(frozen=True, slots=True)
class _Writer:
    view: MessageView
    words: Catalogue
    room: _Room

    def blocks(self) -> tuple[list[Block], int]:
        """Return the blocks, and how many incidents they tell in full.

        Head, incidents in full as many as fit, the others by name, what has resolved, and the foot.
        """
        view = self.view
        incidents, hidden = (view.firing, view.hidden_firing) if view.firing else (view.resolved, view.hidden_resolved)
        tell = self._story if view.firing else self._ending
        resolved = self._resolved_in_short() if view.firing else []
        after = [*([blocks_of.divider()] if resolved else []), *resolved, *self._foot()]
        stories = (tell(one, number, alone=self._is_alone()) for number, one in enumerate(incidents))
        blocks, shown = self._as_many_as_fit(self._head(), stories, incidents, hidden, after)
        return [*blocks, *self._not_in_full(incidents[shown:], hidden), *after], shown

    def details(self) -> list[Block]:
        """Return what a warning in `_IN_CHANNEL` leaves out: of the worst incident the rest, the others in full."""
        firing, hidden, alone = self.view.firing, self.view.hidden_firing, self._is_alone()
        if not firing or (not (rest := self._rest(firing[0])) and alone):
            return []
        stories = (
            self._story(one, number, alone=False)
            if number
            else [*([] if alone else self._heading(one.severity, wording.headline(one, self.words))), *rest]
            for number, one in enumerate(firing)
        )
        head = [blocks_of.sentence(self.details_head(), self.room.sentence)]
        resolved = self._resolved_in_short()
        blocks, shown = self._as_many_as_fit(head, stories, firing, hidden, resolved)
        if shown == 0 and self.room is _FULL:
            return replace(self, room=_BRIEF).details()
        return [*blocks, *self._not_in_full(firing[shown:], hidden), *resolved]

    def details_head(self) -> str:
        """Return the first line of the details: of which message they are."""
        view = self.view
        return self.words.say("slack_details", title=view.title, interval=view.interval_start)

    def _is_alone(self) -> bool:
        view = self.view
        incidents, hidden = (view.firing, view.hidden_firing) if view.firing else (view.resolved, view.hidden_resolved)
        return len(incidents) + hidden == 1

    def _as_many_as_fit(
        self,
        blocks: list[Block],
        stories: Iterable[list[Block]],
        incidents: tuple[IncidentView, ...],
        hidden: int,
        after: list[Block],
    ) -> tuple[list[Block], int]:
        """Return the blocks with as many stories as fit beside what has to come after them, and how many these are."""
        shown = 0
        for number, story in enumerate(islice(stories, self.room.stories), start=1):
            longer = [*blocks, *story]
            if not _fits([*longer, *self._not_in_full(incidents[number:], hidden), *after]):
                break
            blocks, shown = longer, number
        return blocks, shown

    def ends(self) -> list[Block]:
        """Return what has resolved, in a line each: the parent tells the rest."""
        return [*self._head(), *self._resolved_in_short(), *self._foot()]

    def _head(self) -> list[Block]:
        view, words = self.view, self.words
        status = wording.status(view)
        word = wording.status_word(status, words)
        title = words.say("slack_header", status=word[:1].upper() + word[1:], news=wording.in_brief(view, words))
        cluster, team = words.say("slack_cluster"), words.say("slack_team")
        mark = _MARKS["info"] if not view.firing and view.goes_on_count else _mark(status)  # green: all of it is over
        return [
            blocks_of.header(f"{mark} {title}"),
            blocks_of.context(
                f"{cluster} {self._code(view.cluster)}", f"{team} {self._code(view.team)}", wording.why_now(view, words)
            ),
            *blocks_of.small_print(list(wording.notes(view, words))[: self.room.notes], self.room.small),
        ]

    def _story(self, incident: IncidentView, number: int, *, alone: bool) -> list[Block]:
        """Tell one incident that fires; alone, the header has its headline already."""
        words = self.words
        story = [] if alone else self._heading(incident.severity, wording.headline(incident, words))
        story.append(blocks_of.sentence(incident.cause or words.say("slack_cause_unknown"), self.room.sentence))
        if incident.do_next:
            story.append(
                blocks_of.sentence(words.say("slack_what_to_do", do_next=incident.do_next), self.room.sentence)
            )
        story += blocks_of.commands(self._commands(incident))
        if self.room.fields and (figures := self._figures(incident)):
            story.append(blocks_of.fields(figures))
        story += self._queues(incident)
        if self.room is not _IN_CHANNEL:
            story += self._beside(incident)
        story += self._course(incident)
        acknowledge_url = None if incident.acknowledged_at else incident.acknowledge_url
        links = (
            ("acknowledge", words.say("slack_acknowledge"), acknowledge_url),
            ("silence", words.say("slack_silence"), incident.silence_url),
            ("open", words.say("slack_open"), incident.incident_url),
            ("group", words.say("slack_group"), incident.group_url),
            ("console", words.say("slack_console"), incident.console_url),
        )
        return [*story, *blocks_of.buttons(links, number)]

    def _rest(self, incident: IncidentView) -> list[Block]:
        """Tell what the story of an incident leaves out in `_IN_CHANNEL`."""
        told, words = _IN_CHANNEL, self.words
        what_to_do = words.say("slack_what_to_do", do_next=incident.do_next)
        cut = (one for one in (incident.cause, what_to_do) if units(one) > told.sentence)
        rest = [blocks_of.sentence(one, self.room.sentence) for one in cut]
        if replace(self, room=told)._commands(incident) != incident.commands:
            rest += blocks_of.commands(incident.commands)
        if incident.figures:
            rest.append(blocks_of.fields(self._figures(incident)))
        rest += self._queues(incident)
        rest += self._beside(incident)
        return [*rest, *blocks_of.small_print([wording.lag_in_words(incident, words) or ""], self.room.small)]

    def _commands(self, incident: IncidentView) -> tuple[str, ...]:
        """Return the first ones, a safe one before all others; in `_IN_CHANNEL` none of many lines."""
        shown = incident.commands[: self.room.commands]
        return tuple(one for one in shown if self.room is not _IN_CHANNEL or units(one) <= self.room.sentence)

    def _ending(self, incident: IncidentView, number: int, *, alone: bool) -> list[Block]:
        """Tell one incident that is over."""
        words = self.words
        ending = [] if alone else self._heading(wording.RESOLVED, wording.ending(incident, words))
        ending.append(blocks_of.sentence(words.say("slack_it_was", cause=incident.cause), self.room.sentence))
        if names := self._names(incident):
            ending.append(blocks_of.fields(names))
        ending += self._course(incident)
        links = (
            ("open", words.say("slack_open"), incident.incident_url),
            ("group", words.say("slack_group"), incident.group_url),
        )
        return [*ending, *blocks_of.buttons(links, number)]

    def _heading(self, status: str, headline: str) -> list[Block]:
        return [blocks_of.divider(), blocks_of.section(f"{_mark(status)} *{quiet(headline, self.room.name)}*")]

    def _figures(self, incident: IncidentView) -> list[tuple[str, str]]:
        """Give names, figures, and forecasts, which are worth more than the last figures."""
        value = self.room.value
        forecasts = [(label, quiet(when, value)) for label, when in wording.forecasts(incident, self.words)]
        figures = [(quiet(wording.label(figure), 100), quiet(figure.value, value)) for figure in incident.figures]
        room = self.room.fields - len(forecasts)
        return [*[*self._names(incident), *figures][:room], *forecasts]

    def _names(self, incident: IncidentView) -> list[tuple[str, str]]:
        named = (("slack_consumer_group", incident.consumer_group), ("slack_topic", incident.topic))
        return [(self.words.say(key), self._code(name)) for key, name in named if name]

    def _queues(self, incident: IncidentView) -> list[Block]:
        lines = [self._queue(queue) for queue in incident.queues[: self.room.queues]]
        counted = sum(1 + queue.alike_count for queue in incident.queues[: self.room.queues])
        hidden = wording.more(incident.queue_count - counted, "queue", self.words)
        return [blocks_of.section("\n".join([*lines, *([hidden] if hidden else [])]))] if lines else []

    def _queue(self, queue: QueueView) -> str:
        where = quiet(self.words.say("queues_alike", count=1 + queue.alike_count), 200)
        if not queue.alike_count:
            where = code(self.words.say("slack_queue", broker_name=queue.broker_name, queue_id=queue.queue_id), 200)
        figures = self._listed([f"{figure.label} {figure.value}" for figure in queue.figures])
        return f"• {where} {quiet(figures, 250)}" if figures else f"• {where}"

    def _beside(self, incident: IncidentView) -> Iterator[Block]:
        stacks = wording.threads(incident, FRAMES_SHOWN, self.words) if self.room.beside else ()
        for head, shown, _ in stacks:
            yield blocks_of.sentence("\n".join([f"{head}:", *(f"• {shorten(line, 400)}" for line in shown)]), 1_500)
        for head, shown, rest in wording.beside(incident, self.room.beside, self.words):
            lines = [f"{head}:", *(f"• {shorten(line, 120)}" for line in shown), *([rest] if rest else [])]
            yield blocks_of.sentence("\n".join(lines), 700)

    def _course(self, incident: IncidentView) -> list[Block]:
        lines = [line for line in self._course_lines(incident) if line]
        return blocks_of.small_print(lines[: self.room.course], self.room.small)

    def _course_lines(self, incident: IncidentView) -> Iterator[str]:
        """Give since when, how bad at worst, the course of the lag, and who knows of it."""
        words = self.words
        over = incident.resolved_at is not None
        if incident.began_at is not None and not over:
            yield words.say("slack_since", began_at=incident.began_at)
        yield words.say("slack_lasted" if over else "slack_first_seen", history=wording.history(incident, words))
        if incident.peak:
            yield words.say("slack_peak", peak=incident.peak)
        if self.room.fields:
            yield wording.lag_in_words(incident, words) or ""
        else:
            yield from (f"{label} {when}" for label, when in wording.forecasts(incident, words))
        if muted := wording.mutes(incident, words):
            yield words.say("slack_mutes", what=muted)
        if how := wording.acknowledged(incident, words):
            yield words.say("slack_acknowledged", how=how)
        if incident.muted_when_resolved:
            yield words.say("slack_muted_then", by=incident.muted_when_resolved)

    def _resolved_in_short(self) -> list[Block]:
        """Name what has resolved, with how and when."""
        resolved, words = self.view.resolved, self.words
        if not resolved:
            return []
        head = f"*{words.say('slack_resolved')}*"
        if self.room is _IN_CHANNEL:
            names = self._listed([self._name(one) for one in resolved[: self.room.names]])
            rest = wording.more(len(resolved) + self.view.hidden_resolved - self.room.names, "resolved", words)
            return [blocks_of.section(" ".join([head, names, *([rest] if rest else [])]))]
        value = min(120, self.room.value)
        lines = [
            f"{_mark(wording.RESOLVED)} {self._name(one)} "
            + self._listed([quiet(wording.resolution(one, words), value), wording.history(one, words)])
            for one in resolved[: self.room.names]
        ]
        hidden = wording.more(len(resolved) + self.view.hidden_resolved - len(lines), "resolved", words)
        return [blocks_of.section("\n".join([head, *lines, *([hidden] if hidden else [])]))]

    def _not_in_full(self, incidents: tuple[IncidentView, ...], hidden: int) -> list[Block]:
        if not incidents and not hidden:
            return []
        names = [self._name(incident) for incident in incidents[: self.room.names]]
        what = "finding" if self.view.firing else "resolved"
        rest = wording.more(len(incidents) + hidden - len(names), what, self.words)
        parts = [f"*{self.words.say('slack_also')}*", self._listed(names), rest]
        return [blocks_of.section(" ".join(part for part in parts if part))]

    def _foot(self) -> list[Block]:
        view, words = self.view, self.words
        named = (("slack_page", view.page_url), ("slack_data_docs", view.data_docs_url))
        links = [link(url, words.say(key)) for key, url in named if url is not None]
        if self.room is _IN_CHANNEL:
            links.append(words.say("slack_more_below"))
        rule = words.say("slack_rule", rule_id=self._code(view.rule_id), interval=view.interval_start)
        return [*blocks_of.small_print([wording.footnote(view, words)], 300), blocks_of.context(*links, rule)]

    def _name(self, incident: IncidentView) -> str:
        name = incident.consumer_group or incident.topic or self.words.say("slack_nobody")
        return code(name, min(120, self.room.name))

    def _listed(self, parts: Sequence[str]) -> str:
        """Return the parts with the language's comma between them."""
        return reduce(lambda one, other: self.words.say("slack_and", one=one, other=other), parts) if parts else ""

    def _code(self, name: str) -> str:
        return code(name, self.room.name)


def _mark(status: str) -> str:
    return _MARKS.get(status, _MARKS["info"])
