"""How an incident reads in the words of its reader: its texts, its figures, its queues, what its clients' threads did.

What an earlier release kept without its figures, or of a rule that is gone, stays English.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from offsetguard.catalogue import Catalogue, catalogue
from offsetguard.catalogue.text import ENGLISH_UTC, Locale, format_moment, named_figures
from offsetguard.judge.evidence.lookups import SILENT_AT_ZERO
from offsetguard.judge.registry import RULES
from offsetguard.judge.rule import closed
from offsetguard.model.fact_records import ClientStacks
from offsetguard.model.incident import Incident
from offsetguard.model.verdicts import Explained, Figure, QueueEvidence
from offsetguard.model.views import FigureView, QueueView, StackView


def figure_views(figures: Mapping[str, Figure], words: Catalogue) -> tuple[FigureView, ...]:
    """Return figures as people read them, without what is not known or did not happen: it hides what did."""
    return tuple(
        FigureView(label=words.figure_label(name), value=words.figure(name, figure))
        for name, figure in figures.items()
        if figure is not None and (figure or name not in SILENT_AT_ZERO)
    )


def queue_view(queue: QueueEvidence, words: Catalogue) -> QueueView:
    """Return a queue with the figures that were found in it, as people read them."""
    where = queue.message_queue
    figures = figure_views(queue.figures, words)
    return QueueView(topic=where.topic, broker_name=where.broker_name, queue_id=where.queue_id, figures=figures)


_DOING = {"BLOCKED": "thread_blocked", "WAITING": "thread_waiting", "TIMED_WAITING": "thread_waiting"}


def stack_views(stacks: ClientStacks, words: Catalogue) -> Iterator[StackView]:
    """Give what the threads of a client did, as people read it: first whose and when."""
    about = {"client_id": stacks.client_id, "at": stacks.taken_at}
    if stacks.cannot_tell is not None:
        yield StackView(said=words.say("stacks_untold", **about, because=words.say(stacks.cannot_tell)))
        return
    yield StackView(said=words.say("stacks_taken", **about))
    for one in stacks.stacks:
        doing = words.say("thread_network" if one.waits_for_network else _DOING.get(one.state, "thread_running"))
        where = words.say("thread_in", doing=doing, called=one.called) if one.called else doing
        if one.thread is not None:
            said = words.say("stack_of_service", thread=one.thread, doing=where)
        else:
            said = words.say("stack_of_consumers", count=one.count, all=stacks.thread_count, doing=where)
        yield StackView(said=said, frames=one.frames)
    for key, count in (("thread_other", stacks.other_count), ("thread_idle", stacks.idle_count)):
        if count:
            doing = words.say(key)
            yield StackView(said=words.say("stack_of_consumers", count=count, all=stacks.thread_count, doing=doing))


class IncidentWords:
    """The texts of one incident for one kind of reader."""

    def __init__(self, incident: Incident, locale: Locale = ENGLISH_UTC) -> None:
        """Nothing is rendered until it is asked for."""
        self._incident = incident
        self._evidence = incident.evidence
        self._locale = locale
        self._catalogue = catalogue(locale)
        subject = incident.subject
        names = {"cluster": subject.cluster, "consumer_group": subject.consumer_group, "topic": subject.topic}
        self._figures: Mapping[str, Figure] = {**names, **incident.evidence.text_figures}

    @property
    def summary(self) -> str:
        """A few words; of what is not seen any more, that and when it was seen last."""
        return self._when_seen(self._said("summary", self._evidence.summary))

    @property
    def cause(self) -> str:
        """One sentence with names and figures; of what is not seen any more when it was seen last, or why not."""
        cause = self._said("cause", self._evidence.cause)
        because = self._incident.unknown_because
        if because is None:
            return self._when_seen(cause)
        return self._catalogue.say("not_seen_any_more", because=because, cause=cause)

    @property
    def do_next(self) -> str:
        """The next step."""
        return closed(self._said("do_next", self._evidence.do_next), self._evidence.commands)

    @property
    def commands(self) -> tuple[str, ...]:
        """What the next step has to paste into a shell; what a command does is said in the reader's language."""
        rule, found = RULES.get(self._incident.shown_by), self._evidence.commands
        if self._locale == ENGLISH_UTC or rule is None or self._evidence.variant not in rule.texts:
            return found
        again = rule.texts[self._evidence.variant].runnable(self._figures, self._locale)
        return again if len(again) == len(found) else found  # an earlier release did not keep all figures

    @property
    def resolution(self) -> str | None:
        """How it ended; None while it has not."""
        resolution, rule_id = self._incident.resolution, self._incident.shown_by
        if resolution is None:
            return None
        rule = RULES.get(rule_id)
        if rule is not None and resolution == rule.recovered:
            return rule.said("recovered", self._locale.language)
        return self._catalogue.read(resolution)

    @property
    def began_at(self) -> datetime | None:
        """The moment of the event itself; None where its rule knows only when it was seen."""
        rule = RULES.get(self._incident.shown_by)
        name = rule.began if rule is not None else None
        moment = None if name is None else self._evidence.figures.get(name) or self._figures.get(name)
        return moment if isinstance(moment, datetime) else None

    @property
    def peak(self) -> str | None:
        """The worst figure so far, with its name."""
        name, peak = self._incident.peak_figure, self._incident.peak
        if name is None or peak is None:
            return None
        return f"{self._catalogue.figure_label(name)} {self._catalogue.figure(name, peak)}"

    def figures(self) -> tuple[FigureView, ...]:
        """Return those of its table."""
        return figure_views(self._evidence.figures, self._catalogue)

    def queues(self, most: int) -> tuple[QueueView, ...]:
        """Return its worst queues with their figures."""
        return tuple(queue_view(queue, self._catalogue) for queue in self._evidence.queues[:most])

    def changes(self) -> Iterator[str]:
        """Give what changed in the hour before it, newest first."""
        for one in self._incident.changes:
            yield f"{format_moment(one.at, self._locale)}: {self._catalogue.read(one.what)}"

    def stacks(self) -> Iterator[StackView]:
        """Give what the threads of a client did."""
        if self._evidence.stacks is not None:
            yield from stack_views(self._evidence.stacks, self._catalogue)

    def explains(self) -> Iterator[str]:
        """Give e.g. `accumulation: billing is 500 messages behind on orders`; the group is named in any case."""
        for one in self._evidence.explains:
            name, summary = one.consumer_group or one.topic, self._summary_of(one)
            named = summary if name is None or name in summary else f"{name} · {summary}"
            yield f"{one.rule_id}: {self._when_seen(named)}"

    def cannot_tell(self) -> Iterator[str]:
        """Give what could not be told about the same group or brokers, each with its rule."""
        for one in self._evidence.cannot_tell:
            yield f"{one.rule_id}: {self._catalogue.read(one.because)}"

    def _when_seen(self, summary: str) -> str:
        if not self._incident.words_are_old:
            return summary
        return self._catalogue.say("last_seen", at=self._incident.newest_seen_at, summary=summary)

    def _summary_of(self, one: Explained) -> str:
        names = {"cluster": self._incident.subject.cluster, "consumer_group": one.consumer_group, "topic": one.topic}
        return self._render(one.rule_id, one.variant, "summary", {**names, **one.figures}, one.summary)

    def _said(self, field: str, english: str) -> str:
        rule_id, variant = self._incident.shown_by, self._evidence.variant
        return self._render(rule_id, variant, field, self._figures, english)

    def _render(self, rule_id: str, variant: str, field: str, figures: Mapping[str, Figure], english: str) -> str:
        rule = RULES.get(rule_id)  # an incident may outlive its rule
        if self._locale == ENGLISH_UTC or rule is None or variant not in rule.texts:
            return english
        template = rule.texts[variant].said(field, self._locale.language)
        return self._catalogue.render(template, figures) if named_figures(template) <= figures.keys() else english
