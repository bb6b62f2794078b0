"""In-flight figures from a broker's own Prometheus page (`metricsExporterType=PROM`), where the configuration names it.

The only place that knows how many messages a gRPC group holds without having acknowledged them. One GET per broker and
round; a failure is a gap of that broker, not more.
Source: BrokerMetricsManager and ConsumerLagCalculator, 5.5.0; pages of a live 5.5.1 broker.
"""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from offsetguard.collect.http_page import read_page
from offsetguard.collect.manifest import Gap, Outcome
from offsetguard.collect.prometheus_text import Sample, SampleReader
from offsetguard.collect.request_ledger import RequestLedger, outcome_of
from offsetguard.model.errors import RocketMQError, UndecodableResponse
from offsetguard.model.offsets import MASTER_ID

INFLIGHT = "rocketmq_consumer_inflight_messages"
READY = "rocketmq_consumer_ready_messages"
LAG = "rocketmq_consumer_lag_messages"
FAMILIES = (INFLIGHT, READY, LAG)

_NAMES_SHOWN = 5


@dataclass(slots=True)
class TopicSeries:
    """One group's figures for one topic: `[0]` of the topic itself, `[1]` of the group's retry topic for it.

    None = the page does not say.
    """

    inflight: list[int | None] = field(default_factory=lambda: [None, None])  # handed out and not acknowledged
    ready: list[int | None] = field(default_factory=lambda: [None, None])  # not handed out
    lag: list[int | None] = field(default_factory=lambda: [None, None])
    taken_for_pop: bool = False  # the broker counts the group as POP: only then it has a series of the retry topic


@dataclass(slots=True)
class BrokerMetrics:
    """What one broker's page says; groups that it takes for offline are missing."""

    groups: dict[str, dict[str, TopicSeries]] = field(default_factory=dict)  # group -> topic -> figures
    unreadable_count: int = 0  # lines of our families that were no samples of a group
    other_brokers: set[str] = field(default_factory=set)  # whose samples stand on the page as well

    def add(self, sample: Sample, broker_name: str) -> None:
        """Keep a sample unless another broker labelled it (`node_id`): one page may serve several brokers."""
        node = sample.labels.get("node_id", broker_name)
        group, topic = sample.labels.get("consumer_group"), sample.labels.get("topic")
        if node != broker_name:
            self.other_brokers.add(node)
        elif group is None or topic is None:
            self.unreadable_count += 1
        else:
            _keep(self.groups.setdefault(group, {}).setdefault(topic, TopicSeries()), sample)


def metrics_url(metrics_urls: Mapping[str, str], broker_name: str) -> str | None:
    """Return the page of a broker; the configuration's keys are names or patterns, the first that matches counts."""
    return next((url for pattern, url in metrics_urls.items() if fnmatch.fnmatchcase(broker_name, pattern)), None)


async def read_metrics(
    metrics_urls: Mapping[str, str], broker_names: Iterable[str], ledger: RequestLedger, timeout_s: float
) -> dict[str, BrokerMetrics]:
    """Read the pages of all brokers that have one, at once; by broker name. What fails is a gap in the ledger."""
    asked = {name: url for name in broker_names if (url := metrics_url(metrics_urls, name)) is not None}
    outcomes = await asyncio.gather(*(_read(name, url, ledger, timeout_s) for name, url in asked.items()))
    return {name: metrics for name, metrics in zip(asked, outcomes, strict=True) if metrics is not None}


async def fetch_metrics(url: str, broker_name: str, timeout_s: float) -> BrokerMetrics:
    """Read one page; raises a RocketMQError that names `host:port`, also when the page is another broker's."""
    reader, metrics = SampleReader(FAMILIES), BrokerMetrics()

    def feed(chunk: bytes) -> None:
        for sample in reader.feed(chunk):
            metrics.add(sample, broker_name)

    await read_page(url, feed, timeout_s=timeout_s)
    for sample in reader.close():
        metrics.add(sample, broker_name)
    metrics.unreadable_count += reader.unreadable_count
    if metrics.other_brokers and not metrics.groups:
        others = ", ".join(sorted(metrics.other_brokers)[:_NAMES_SHOWN])
        raise UndecodableResponse(urlsplit(url).netloc, f"GET {url}: the page of {others}, not of {broker_name}")
    return metrics


async def _read(broker_name: str, url: str, ledger: RequestLedger, timeout_s: float) -> BrokerMetrics | None:
    try:
        metrics = await fetch_metrics(url, broker_name, timeout_s)
    except RocketMQError as error:
        outcome = outcome_of(error)
        ledger.count(outcome)
        ledger.add_gap(_gap(error.address, broker_name, outcome, f"{error}; check metrics_urls in the configuration"))
        return None
    ledger.count(Outcome.ANSWERED)
    if metrics.unreadable_count:
        reason = f"GET {url}: {metrics.unreadable_count} lines of the page cannot be read; they are left out"
        ledger.add_gap(_gap(urlsplit(url).netloc, broker_name, Outcome.UNDECODABLE, reason))
    return metrics


def _keep(series: TopicSeries, sample: Sample) -> None:
    retry = sample.labels.get("is_retry") == "true"
    figures = {INFLIGHT: series.inflight, READY: series.ready, LAG: series.lag}[sample.family]
    figures[retry] = None if sample.value is None else int(sample.value)
    series.taken_for_pop |= retry


def _gap(address: str, broker_name: str, outcome: Outcome, reason: str) -> Gap:
    return Gap(
        address=address,
        broker_name=broker_name,
        broker_id=MASTER_ID,
        what="messages in flight, from the metrics page",
        outcome=outcome,
        reason=reason,
    )
