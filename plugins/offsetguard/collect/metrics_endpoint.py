"""In-flight figures from a broker's own Prometheus page (`metricsExporterType=PROM`), where the configuration names it.

The only place that knows how many messages a gRPC group holds without having acknowledged them. One GET per broker and
round; a failure is a gap of that broker, not more: an exporter may hang, drip, redirect, or serve tens of megabytes.
A page is read line by line as it comes, and a line that does not begin with a wanted family is dropped before it is
looked at. What is wanted and cannot be read is counted. Values that say nothing (NaN, infinite) or cannot be (below 0:
a broker writes -9.2E18 for the age of what does not exist) are None: an unknown figure, not a missing one.
Not done here: redirects, compression, proxies, logins.
Source: BrokerMetricsManager and ConsumerLagCalculator, 5.5.0; pages of live brokers 5.5.0 and 5.5.1.
"""

import asyncio
import fnmatch
import math
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from offsetguard.collect.manifest import Gap, Outcome, RequestLedger, outcome_of
from offsetguard.model import errors
from offsetguard.model.offsets import MASTER_ID

INFLIGHT = "rocketmq_consumer_inflight_messages"
READY = "rocketmq_consumer_ready_messages"
LAG = "rocketmq_consumer_lag_messages"
FAMILIES = (INFLIGHT, READY, LAG)
MAX_PAGE_BYTES = 32 * 1024 * 1024
MAX_LINE_BYTES = 16 * 1024  # a name has at most 255 characters, a line a dozen labels
_NAMES_SHOWN = 5
_HEADERS = {"Accept": "text/plain", "Accept-Encoding": "identity", "User-Agent": "offsetguard"}


@dataclass(slots=True)
class TopicSeries:
    """What the page says of one group and topic."""

    # handed out and not acknowledged: of the topic itself, and of the group's retry topic for it; None = not said
    inflight: list[int | None] = field(default_factory=lambda: [None, None])
    taken_for_pop: bool = False  # the broker counts the group as POP: only then it has a series of the retry topic


@dataclass(slots=True)
class BrokerMetrics:
    """What one broker's page says; groups that it takes for offline are missing."""

    groups: dict[str, dict[str, TopicSeries]] = field(default_factory=dict)  # group -> topic -> figures
    unreadable_count: int = 0  # lines of our families that were no samples of a group
    other_brokers: set[str] = field(default_factory=set)  # whose samples stand on the page as well

    def add_line(self, line: bytes, broker_name: str) -> None:
        """Keep what a line says unless another broker labelled it (`node_id`): one page may serve several brokers."""
        try:
            sample = sample_of(line)
        except ValueError:
            self.unreadable_count += 1
            return
        if sample is None:
            return
        node = sample.labels.get("node_id", broker_name)
        group, topic = sample.labels.get("consumer_group"), sample.labels.get("topic")
        if node != broker_name:
            self.other_brokers.add(node)
        elif group is None or topic is None:
            self.unreadable_count += 1
        else:
            _keep(self.groups.setdefault(group, {}).setdefault(topic, TopicSeries()), sample)


def sample_of(line: bytes) -> Sample | None:
    """Read a line; None: it is of no wanted family. Raises ValueError for one of a wanted family that is no sample."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"a line of more than {MAX_LINE_BYTES} bytes")
    text = line.decode(errors="replace").strip(" \t\r")
    if not text.startswith(FAMILIES):
        return None
    try:
        (metric,) = text_string_to_metric_families(text)
    except (IndexError, OverflowError) as error:  # of a label without a name, of a time of hundreds of digits
        raise ValueError("no sample") from error
    (sample,) = metric.samples
    return sample if sample.name in FAMILIES else None  # of another family, whose name only begins like ours


def metrics_url(metrics_urls: Mapping[str, str], broker_name: str) -> str | None:
    """Return the page of a broker; the configuration's keys are names or patterns, the first that matches counts."""
    return next((url for pattern, url in metrics_urls.items() if fnmatch.fnmatchcase(broker_name, pattern)), None)


async def read_metrics(
    metrics_urls: Mapping[str, str], broker_names: Iterable[str], ledger: RequestLedger, timeout_s: float
) -> dict[str, BrokerMetrics]:
    """Read the pages of all brokers that have one, at once; by broker name. What fails is a gap in the ledger."""
    asked = {name: url for name in broker_names if (url := metrics_url(metrics_urls, name)) is not None}
    certificates = ssl.create_default_context()  # the machine's own, not those that httpx brings
    async with httpx.AsyncClient(
        verify=certificates,
        trust_env=False,
        timeout=None,  # noqa: S113 one for the whole page follows
    ) as client:
        outcomes = await asyncio.gather(
            *(_read(client, name, url, ledger, timeout_s=timeout_s) for name, url in asked.items())
        )
    return {name: metrics for name, metrics in zip(asked, outcomes, strict=True) if metrics is not None}


async def _read(
    client: httpx.AsyncClient, broker_name: str, url: str, ledger: RequestLedger, *, timeout_s: float
) -> BrokerMetrics | None:
    try:
        metrics = await _fetch(client, url, broker_name, timeout_s)
    except errors.RocketMQError as error:
        outcome = outcome_of(error)
        ledger.count(outcome)
        ledger.add_gap(_gap(error.address, broker_name, outcome, f"{error}; check metrics_urls in the configuration"))
        return None
    ledger.count(Outcome.ANSWERED)
    if metrics.unreadable_count:
        reason = f"GET {url}: {metrics.unreadable_count} lines of the page cannot be read; they are left out"
        ledger.add_gap(_gap(urlsplit(url).netloc, broker_name, Outcome.UNDECODABLE, reason))
    return metrics


async def _fetch(client: httpx.AsyncClient, url: str, broker_name: str, timeout_s: float) -> BrokerMetrics:
    """Read one page; raises a RocketMQError that names `host:port`, also when the page is another broker's.

    Refused for every status but 200, unreachable, timed out (`timeout_s` covers everything), connection lost,
    undecodable (no HTTP, longer than MAX_PAGE_BYTES).
    """
    parts = urlsplit(url)
    address, what = parts.netloc, f"GET {url}"
    metrics = BrokerMetrics()
    answered = False
    try:
        _ = parts.port  # ValueError for a port that cannot be
        async with asyncio.timeout(timeout_s), client.stream("GET", url, headers=_HEADERS) as response:
            answered = True
            if response.status_code != httpx.codes.OK:
                status = f"HTTP status {response.status_code} {response.reason_phrase}"
                raise errors.BrokerRefused(address, response.status_code, status)
            async for line in _lines(response):
                metrics.add_line(line, broker_name)
    except TimeoutError as error:
        raise errors.RequestTimedOut(address, f"{what}: not read within {timeout_s:g} s") from error
    except httpx.ConnectError as error:  # refused, no such host, no route, TLS
        raise errors.PeerUnreachable(address, f"{what}: {error}") from error
    except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
        if isinstance(error, httpx.NetworkError) or answered or "disconnected" in str(error):
            raise errors.ConnectionLost(address, f"{what}: closed before the end of the page") from error
        raise errors.UndecodableResponse(address, f"{what}: no HTTP answer: {error}") from error
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise errors.UndecodableResponse(address, f"{what}: {error}") from error
    if metrics.other_brokers and not metrics.groups:
        others = ", ".join(sorted(metrics.other_brokers)[:_NAMES_SHOWN])
        raise errors.UndecodableResponse(address, f"{what}: the page of {others}, not of {broker_name}")
    return metrics


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the lines of a page as they come; of one without an end no more than its beginning is kept."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise ValueError(f"the page comes in {encoding[:40]!r} encoding, which was not asked for")
    rest, size = b"", 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size > MAX_PAGE_BYTES:
            raise ValueError(f"the page is longer than {MAX_PAGE_BYTES} bytes")
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
        rest = rest[: MAX_LINE_BYTES + 1]
    yield rest


def _keep(series: TopicSeries, sample: Sample) -> None:
    retry = sample.labels.get("is_retry") == "true"
    if sample.name == INFLIGHT:
        series.inflight[retry] = int(sample.value) if 0 <= sample.value < math.inf else None
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
