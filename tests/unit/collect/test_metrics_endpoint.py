"""Brokers' metrics pages: what they say is kept, what they cannot say is unknown, and what goes wrong is one gap."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from offsetguard.collect.manifest import Outcome, RequestLedger
from offsetguard.collect.metrics_endpoint import (
    INFLIGHT,
    MAX_LINE_BYTES,
    MAX_PAGE_BYTES,
    BrokerMetrics,
    metrics_url,
    read_metrics,
)
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.http_server import HttpPeer, Quiet

PAGE = (Path(__file__).parent / "pop_cases" / "metrics_s5.txt").read_bytes()


def metrics_of(page: bytes) -> BrokerMetrics:
    metrics = BrokerMetrics()
    for line in page.split(b"\n"):
        metrics.add_line(line, "broker-a")
    return metrics


@pytest.mark.parametrize(
    ("rest", "topic", "value"),
    [
        ('{consumer_group="g",topic="t"} 4e1 1395066363000', "t", 40),
        (' { topic = "t" , consumer_group="g" }\t40 ', "t", 40),
        (r'{topic="a\"b\\n\n}",consumer_group="g",x=","} 1', 'a"b\\n\n}', 1),
        ('{consumer_group="g",topic="t"} NaN', "t", None),
        ('{consumer_group="g",topic="t"} +Inf', "t", None),
        ('{consumer_group="g",topic="t"} -9.2233702416029358E18', "t", None),
        ('{consumer_group="g",topic="t"} 0.0', "t", 0),
    ],
)
def test_a_figure_is_what_the_line_says_or_unknown_where_it_cannot_be(rest: str, topic: str, value: int | None) -> None:
    metrics = metrics_of(f"{INFLIGHT}{rest}\n".encode())
    assert metrics.unreadable_count == 0
    assert {topic: one.inflight for topic, one in metrics.groups["g"].items()} == {topic: [value, None]}


@for_each(
    "rest",
    [
        " -9.2E",
        "",
        " 40",  # of no group
        '{topic="t"',
        "{topic=t} 1",
        '{topic="t"} x',
        '{a="1" b="2"} 1',
        '{ ="1"} 1',
        f'{{topic="t"}} 1 1{"9" * 400}',
        f'{{a="{"x" * MAX_LINE_BYTES}"}} 1',
    ],
)
def test_a_line_of_a_wanted_family_that_is_none_is_counted(rest: str) -> None:
    assert metrics_of(f"{INFLIGHT}{rest}\nother 1\n".encode()) == BrokerMetrics(unreadable_count=1)


def test_other_families_and_comments_are_passed_over() -> None:
    page = f"# HELP {INFLIGHT} x\n{INFLIGHT}_total 3\nrocketmq_broken{{ x\n\n".encode()
    assert metrics_of(page) == BrokerMetrics()


@contextmanager
def server(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Serve one page; what `answer` does is all that the client sees."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

    with HttpPeer(Handler) as http_server:
        yield f"{http_server.url}metrics"


def page(body: bytes, *, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def read(
    url: str, *, broker_name: str = "broker-a", timeout_s: float = 20.0
) -> tuple[BrokerMetrics | None, RequestLedger]:
    ledger = RequestLedger()
    found = asyncio.run(read_metrics({broker_name: url}, [broker_name, "another"], ledger, timeout_s))
    return found.get(broker_name), ledger


def test_a_served_page_is_read() -> None:
    with server(page(PAGE, Content_Length=str(len(PAGE)))) as url:
        metrics, ledger = read(url)
    assert metrics is not None
    assert set(metrics.groups) == {"pop-push", "pop-remote", "pop-simple", "CID_DefaultHeartBeatSyncerTopic"}
    assert ledger.gaps == []
    assert ledger.counts.answered == 1


def too_long(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    line = b"# " + b"x" * 65_534
    for _ in range(MAX_PAGE_BYTES // len(line) + 2):
        try:
            handler.wfile.write(line)
        except ConnectionError:
            return


FAILURES = [
    (page(b"", status=500), Outcome.REFUSED, "500"),
    (page(b"", status=302, Location="http://192.0.2.1/metrics"), Outcome.REFUSED, "302"),
    (page(PAGE[:100], Content_Length=str(len(PAGE))), Outcome.CONNECTION_LOST, "closed before the end"),
    (lambda handler: None, Outcome.CONNECTION_LOST, "closed before the end"),
    (page(b"", Content_Length="-1"), Outcome.UNDECODABLE, "Content-Length"),
    (page(PAGE, Content_Encoding="gzip"), Outcome.UNDECODABLE, "gzip"),
    (lambda handler: handler.wfile.write(b"SSH-2.0-x\r\n\r\n"), Outcome.UNDECODABLE, "no HTTP"),
    (lambda handler: handler.wfile.write(b"x" * 1_000_000), Outcome.UNDECODABLE, "GET http"),
    (too_long, Outcome.UNDECODABLE, "longer than"),
    (page(f'{INFLIGHT}{{topic="t"}} x\n{INFLIGHT}{{topic="t"}} 1\n'.encode()), Outcome.UNDECODABLE, "2 lines"),
]


@pytest.mark.parametrize(("answer", "outcome", "reason"), FAILURES)
def test_what_goes_wrong_is_one_gap_of_that_broker(
    answer: Callable[[BaseHTTPRequestHandler], None], outcome: Outcome, reason: str
) -> None:
    with server(answer) as url:
        _, ledger = read(url)
    (gap,) = ledger.gaps
    assert (gap.broker_name, gap.outcome) == ("broker-a", outcome)
    assert reason in gap.reason
    assert url.split("/")[2] in gap.address


def test_the_page_of_another_broker_is_not_believed() -> None:
    with server(page(PAGE)) as url:
        metrics, ledger = read(url, broker_name="broker-b")
    assert metrics is None
    assert "the page of broker-a, not of broker-b" in ledger.gaps[0].reason


def test_a_page_that_drips_costs_its_time_out() -> None:
    released = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        while not released.wait(0.02):
            try:
                handler.wfile.write(b"H")
            except ConnectionError:
                return

    with server(drip) as url:
        metrics, ledger = read(url, timeout_s=0.3)
        released.set()
    assert metrics is None
    assert ledger.gaps[0].outcome is Outcome.TIMED_OUT


@pytest.mark.parametrize(
    ("url", "outcome"),
    [
        ("http://127.0.0.1:1/metrics", Outcome.UNREACHABLE),
        ("http://nobody.invalid/metrics", Outcome.UNREACHABLE),
        ("http://127.0.0.1:99999/metrics", Outcome.UNDECODABLE),
        ("http:///metrics", Outcome.UNDECODABLE),
    ],
)
def test_an_address_where_nobody_is_or_that_cannot_be_is_a_gap(url: str, outcome: Outcome) -> None:
    metrics, ledger = read(url)
    assert metrics is None
    assert ledger.gaps[0].outcome is outcome


def test_a_pattern_may_name_the_page_of_several_brokers() -> None:
    urls = {"broker-a": "http://a/", "broker-*": "http://all/"}
    assert [metrics_url(urls, name) for name in ("broker-a", "broker-b", "other")] == ["http://a/", "http://all/", None]
