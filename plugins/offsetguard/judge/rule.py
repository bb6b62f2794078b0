"""The one shape of all rules: data on top, one `find` method; and what they give: findings, and what none can tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from offsetguard.catalogue.text import Language, named_figures, render_text
from offsetguard.model.verdicts import Explained, Figure, QueueEvidence, Severity


class _Said:
    """What has its English texts in its fields, and the Chinese ones beside them in fields of that name and `_zh`."""

    __slots__ = ()

    def said(self, name: str, language: Language) -> str:
        """Return a text in a language."""
        return str(getattr(self, name if language is Language.EN else f"{name}_{language}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts(_Said):
    """What people read of a finding, as templates over its figures (format: `catalogue.text.render_text`)."""

    summary: str  # a few words, no full stop
    summary_zh: str
    cause: str  # one sentence, with names and figures
    cause_zh: str
    do_next: str  # what the reader should do now
    do_next_zh: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(_Said):
    """What is fixed about a rule. `texts` has one entry per variant of the finding; there is always a `default`."""

    id: str
    severity: Severity
    place: int  # among findings of one severity: those of rules with small ones are told first
    needs: tuple[str, ...]  # fields of IntervalFacts that the rule reads
    means: str  # one sentence for docs/rules.md
    texts: Mapping[str, Texts]
    title: str  # a few words that fit every variant: the headline of a message about several groups
    title_zh: str
    recovered: str  # what is said when nothing is found any more
    recovered_zh: str
    table: tuple[str, ...] = ()  # figures of the message's small table, in order
    peak: str | None = None  # the figure whose worst value over the incident's life is kept
    group_needs: tuple[str, ...] = ()  # fields of GroupFacts without which a group cannot be said to have recovered
    calm_ms: int = 0  # an incident ends only when nothing was found for so long: what comes and goes is one trouble
    bad_cycles: int = 1  # intervals that must show it before anybody is told: more where a single sample can lie
    after: tuple[str, ...] = ()  # ids of rules whose trouble has traces like its own: told one interval after their end
    never_muted: bool = (
        False  # no trouble above it hides it: what was lost or moved is no consequence of what is unseen
    )
    good_cycles: int = 2  # intervals that must show its end, one after the other, before it ends; not with calm_ms


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule's output for one cluster, group and topic (None where it concerns more than one)."""

    rule: Rule
    cluster: str
    consumer_group: str | None
    topic: str | None
    severity: Severity
    figures: Mapping[str, Figure]
    queues: tuple[QueueEvidence, ...] = ()  # worst first, all of them
    variant: str = "default"
    state: str = "OK"  # state word of design: LOST, ANOMALY, STOPPED, FALLING_BEHIND, UNKNOWN, ...
    broker_names: frozenset[str] = frozenset()  # brokers that it concerns besides those of its queues
    last_event_at: datetime | None = None  # of what is over by itself: when it was seen last; None: it goes on
    explains: tuple[Explained, ...] = ()  # set by `subsumption.subsume`, never by a rule

    @property
    def all_broker_names(self) -> frozenset[str]:
        """Every broker that it concerns, with those of its queues."""
        return self.broker_names.union(evidence.message_queue.broker_name for evidence in self.queues)

    @property
    def summary(self) -> str:
        """A few words."""
        return render_text(self._texts.summary, self._names_and_figures)

    @property
    def cause(self) -> str:
        """One sentence with names and figures."""
        return render_text(self._texts.cause, self._names_and_figures)

    @property
    def do_next(self) -> str:
        """The next step."""
        return render_text(self._texts.do_next, self._names_and_figures)

    @property
    def text_figures(self) -> dict[str, Figure]:
        """The figures that its texts name: what it takes to say them in another language."""
        texts = self._texts
        named = named_figures(texts.summary) | named_figures(texts.cause) | named_figures(texts.do_next)
        return {name: figure for name, figure in self.figures.items() if name in named}

    @property
    def as_explained(self) -> Explained:
        """The finding as the one that explains it names it."""
        named = named_figures(self._texts.summary)
        figures = {name: figure for name, figure in self.figures.items() if name in named}
        return Explained(self.rule.id, self.consumer_group, self.topic, self.summary, self.variant, figures)

    @property
    def _texts(self) -> Texts:
        return self.rule.texts[self.variant]

    @property
    def _names_and_figures(self) -> dict[str, Figure]:
        names = {"cluster": self.cluster, "consumer_group": self.consumer_group, "topic": self.topic}
        return {**names, **self.figures}
