"""The one shape of all rules: data on top, one `find`; and what they give: findings, and what none can tell.

A rule's file takes the words of its trade, and the facts that most rules read, from here:
`from offsetguard.judge.rule import Config, Finding, IntervalFacts, Rule, Texts, ...`.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from offsetguard.catalogue import Sentence
from offsetguard.catalogue.text import ENGLISH_UTC, Language, Locale, named_figures, render_text
from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, OnlineGroupFacts, QueueFacts
from offsetguard.model.fact_records import ClientStacks
from offsetguard.model.verdicts import CannotTell, Explained, Figure, QueueEvidence, Severity, State
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard.tables.group_facts import GroupFacts


class Scope(StrEnum):
    """What two findings of one cluster must have in common."""

    QUEUES = "same queues"  # of one group and topic: nearly all of the lag lies on the explaining queues
    TOPIC = "same group and topic"  # a finding about all groups of a topic explains each of them
    GROUP = "same group"
    BROKER = "same brokers"  # all brokers of the explained one are among the explaining ones
    CLUSTER = "same cluster"


@dataclass(frozen=True, slots=True)
class Explains:
    """Findings of these rules are explained by those of the rule that says so, within the scope (`subsumption.py`)."""

    scope: Scope
    rules: tuple[str, ...]  # their ids
    variants: tuple[str, ...] = ()  # of the explaining rule; empty: all
    explained_variants: tuple[str, ...] = ()
    quiets: bool = False  # the explaining finding shows that nothing is wrong, and keeps its own severity


@dataclass(frozen=True, slots=True)
class Mutes:
    """What open incidents of a rule mute: of the same cluster, all of whose brokers they have, or of the same topic."""

    scope: Scope  # CLUSTER, BROKER or TOPIC
    variants: tuple[str, ...] = ()  # of the muting rule; empty: all
    rules: tuple[str, ...] = ()  # that it mutes; empty: all


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a rule stands in the course of one trouble of a group and topic, of which other rules show other stages.

    Together they give one incident, in the words of the one that is found. Each explains all stages before its own.
    """

    of: str  # the trouble: the same word in each of its rules
    place: int  # who knows of an earlier stage is notified of a later one


class _Bilingual:
    """A record with English texts, each with the Chinese one beside it in a field of the same name and `_zh`."""

    __slots__ = ()

    def said(self, name: str, language: Language) -> str:
        """Return a text in a language."""
        return str(getattr(self, name if language is Language.EN else f"{name}_{language}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts(_Bilingual):
    """What people read of a finding, as templates over its figures (format: `catalogue.text.render_text`).

    Besides its figures they may name the finding's cluster, consumer_group and topic, and commands name_servers (-n)
    and rocketmq_cluster (-c). `{addresses:each}` gives one command for each word of a figure. What a variant leaves
    out, in both languages, is said as in the default one.
    """

    summary: str = ""  # a few words, no full stop
    summary_zh: str = ""
    cause: str = ""  # one sentence, with names and figures
    cause_zh: str = ""
    do_next: str = ""  # what the reader should do now
    do_next_zh: str = ""
    commands: tuple[str, ...] = ()  # for a shell, with `do_next`; what is foreign in them is quoted: `{topic:shell}`

    def beside(self, default: Texts) -> Texts:
        """Return it with what it leaves out as the default variant says it."""
        names = [
            name
            for name in ("summary", "cause", "do_next")
            if not (self.said(name, Language.EN) or self.said(name, Language.ZH))
        ]
        names += [f"{name}_zh" for name in names] + ["commands"] * ("do_next" in names)
        return replace(self, **{name: getattr(default, name) for name in names})

    def runnable(self, figures: Mapping[str, Figure], locale: Locale = ENGLISH_UTC) -> tuple[str, ...]:
        """Return the commands of which all figures are known."""
        known = {name for name, figure in figures.items() if figure is not None}
        named = (one for one in self.commands if named_figures(one) <= known)
        return tuple(command for one in named for command in _filled(one, figures, locale))

    @property
    def named_figures(self) -> frozenset[str]:
        """The figures that they name: they are the same in each language."""
        return frozenset().union(*map(named_figures, (self.summary, self.cause, self.do_next, *self.commands)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(_Bilingual):
    """What is fixed about a rule. `texts` has one entry per variant of the finding; there is always a `default`."""

    id: str
    severity: Severity
    place: int  # its own: rules with small ones are told first among findings of one severity, and mute those below
    needs: tuple[str, ...]  # fields of IntervalFacts that the rule reads
    unseen: str | None = None  # sentence of the catalogue: what it cannot tell of brokers that gave no offsets
    means: str  # one sentence for docs/rules.md
    texts: Mapping[str, Texts]
    title: str  # a few words that fit every variant: the headline of a message about several groups
    title_zh: str
    recovered: str  # what is said when nothing is found any more
    recovered_zh: str
    table: tuple[str, ...] = ()  # figures of the message's small table, in order
    peak: str | None = None  # the figure whose worst value over the incident's life is kept
    began: str | None = None  # the figure that is the event's own moment: readers are told it as "since"
    group_needs: tuple[str, ...] = ()  # fields of GroupFacts without which a group cannot be said to have recovered
    from_clients: bool = False  # by what clients say of themselves: nobody sees its end before all of them are asked
    calm_ms: int = 0  # an incident ends only when nothing was found for so long: what comes and goes is one trouble
    bad_cycles: int = 1  # intervals that must show it before anybody is told: more where a single sample can lie
    after: tuple[str, ...] = ()  # ids of rules whose trouble has traces like its own: told one interval after their end
    never_muted: bool = False  # by trouble above it: what was lost or moved is no consequence of what is unseen
    good_cycles: int = 2  # intervals that must show its end, one after the other, before it ends; not with calm_ms
    explains: tuple[Explains, ...] = ()
    mutes: Mutes | None = None
    stage: Stage | None = None
    holds_queues: bool = False  # it accounts for the lag of the queues that it names, and of no others
    counted: bool = False  # where it only informs, people read of all its groups in one entry, named and counted
    shows_stacks: bool = False  # what the threads of a client do stands beside it, where one of the group was asked
    about_load: bool = False  # of the whole group; asked twice where a cause holds some of its queues

    def __post_init__(self) -> None:
        """Complete the texts of its variants."""
        texts = {variant: texts.beside(self.texts["default"]) for variant, texts in self.texts.items()}
        object.__setattr__(self, "texts", texts)

    @property
    def trouble(self) -> str:
        """What it is a stage of; by itself it is a trouble of its own."""
        return self.id if self.stage is None else self.stage.of

    @property
    def named_figures(self) -> frozenset[str]:
        """The figures that any of its texts names: they are the same in each language."""
        return frozenset().union(*(texts.named_figures for texts in self.texts.values()))

    def finding(
        self,
        facts: IntervalFacts,
        figures: Mapping[str, Figure],
        *,
        about: tuple[str | None, str | None] = (None, None),
        severity: Severity | None = None,
        variant: str = "default",
        state: str = "OK",
        queues: tuple[QueueEvidence, ...] = (),
        broker_names: frozenset[str] = frozenset(),
        last_event_at: datetime | None = None,
        unsure: bool = False,
    ) -> Finding:
        """Return a finding about a (consumer group, topic), or neither; with the rule's severity unless told."""
        return Finding(
            rule=self,
            cluster=facts.cluster,
            consumer_group=about[0],
            topic=about[1],
            severity=severity or self.severity,
            figures=figures,
            queues=queues,
            variant=variant,
            state=state,
            broker_names=broker_names,
            last_event_at=last_event_at,
            unsure=unsure,
            audited=facts.audited,
        )

    def cannot_tell(
        self, because: Sentence, *, consumer_group: str | None = None, brokers: Collection[str] = ()
    ) -> CannotTell:
        """Return what the rule cannot tell of a group, or of brokers."""
        return CannotTell(self.id, consumer_group, frozenset(brokers), because)


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
    unsure: bool = False  # what decides its severity could not be seen: an open incident does not get better by it
    explained: tuple[Finding, ...] = ()  # those that it explains; set by `subsumption.subsume`, never by a rule
    stacks: ClientStacks | None = None  # set by `registry.judge` where the rule shows them
    audited: bool = True  # False: the facts that show it are not published

    @property
    def all_broker_names(self) -> frozenset[str]:
        """Every broker that it concerns, with those of its queues."""
        return self.broker_names.union(evidence.message_queue.broker_name for evidence in self.queues)

    @property
    def explains(self) -> tuple[Explained, ...]:
        """What it explains, as readers see it."""
        return tuple(one.as_explained for one in self.explained)

    def ended_before(self, shown_at: datetime | None, *, is_open: bool = True) -> bool:
        """Whether what it is about was over when an earlier judgement, as of `shown_at`, showed it already.

        What it explains goes on, and so does it while it `is_open`.
        """
        if self.last_event_at is None or shown_at is None or (self.explained and is_open):
            return False
        return self.last_event_at <= shown_at

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
        return closed(render_text(self._texts.do_next, self._names_and_figures), self.commands)

    @property
    def commands(self) -> tuple[str, ...]:
        """What the next step has to paste into a shell; none that names a figure that is not known."""
        return self._texts.runnable(self._names_and_figures)

    @property
    def text_figures(self) -> dict[str, Figure]:
        """The figures that its texts name: what it takes to say them in another language."""
        named = self._texts.named_figures
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


def closed(text: str, commands: Collection[str]) -> str:
    """Return a next step as it reads with its commands: a colon leads to them, a stop ends it where there is none."""
    stop = {":": ".", "：": "。"}.get(text[-1:])
    return text if commands or stop is None else text[:-1] + stop


def _filled(template: str, figures: Mapping[str, Figure], locale: Locale) -> Iterator[str]:
    repeated = [name for _, name, how, _ in string.Formatter().parse(template) if name and how == "each"]
    if not repeated:
        yield render_text(template, figures, locale)
    for word in str(figures[repeated[0]]).split() if repeated else ():
        yield render_text(template, {**figures, repeated[0]: word}, locale)
