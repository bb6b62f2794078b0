"""What is kept of a client's thread stacks: of live clients, of texts that were made up, and of any text at all."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.model.fact_records import ThreadStack
from offsetguard.sources.rocketmq.stacks import (
    FRAMES_INNERMOST,
    FRAMES_OUTERMOST,
    MOST_STACKS,
    stacks_of,
)
from offsetguard_peers.cases.running import examples, for_each

HERE = Path(__file__).parent
CASES = yaml.safe_load((HERE / "stacks.yml").read_text("utf-8"))
WHO = ("a client", datetime(2026, 11, 21, tzinfo=UTC))
JDK = ["java.lang.Thread.sleep(Native Method)", "java.util.concurrent.FutureTask.run(FutureTask.java:264)"]


def _expected(one: dict[str, Any]) -> ThreadStack:
    names = ("count", "state", "called", "thread")
    kept = {name: one[name] for name in names if name in one}
    return ThreadStack(frames=tuple(one["frames"]), waits_for_network=one.get("network", False), **kept)


@for_each("case", CASES, lambda case: case["why"])
def test_stacks_are_kept_as_the_case_says(case: dict[str, Any]) -> None:
    text = case["text"] if "text" in case else (HERE / "jstack" / case["file"]).read_text("utf-8")
    found = stacks_of(text, case["group"], *WHO)
    if "threads" not in case:
        assert found is None
        return
    assert found is not None
    assert [found.thread_count, found.idle_count] == case["threads"]
    if "stacks" in case:
        assert list(found.stacks) == [_expected(one) for one in case["stacks"]]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["BLOCKED", "WAITING", "RUNNABLE"]),
            st.lists(
                st.sampled_from(["com.acme.A.a(A.java:1)", "com.acme.B.b(B.java:2)", *JDK]), min_size=1, max_size=4
            ),
        ),
        max_size=40,
    ),
    st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=120),
)
@settings(max_examples=examples(1))
def test_every_thread_is_counted_once_whatever_its_group_is_called(
    threads: list[tuple[str, list[str]]], group: str
) -> None:
    lines = []
    for number, (state, frames) in enumerate(threads):
        name = f"ConsumeMessageThread_{group[:100]}_{number}"
        lines += [f"{name:40}TID: {number} STATE: {state}", *(f"{name:40}{frame}" for frame in frames), ""]
    found = stacks_of("\n".join(lines), group, *WHO)
    if not threads:
        assert found is None
        return
    assert found is not None
    assert (found.thread_count, found.idle_count) == (len(threads), 0)
    kept = sum(one.count for one in found.stacks)
    assert kept == len(threads) or (len(found.stacks) == MOST_STACKS and kept < len(threads))
    counts = Counter(one.count for one in found.stacks)
    assert list(counts.elements()) == sorted(counts.elements(), reverse=True), "most threads first"


@given(st.text())
@settings(max_examples=examples(1))
def test_any_text_can_be_read_and_little_of_it_is_kept(text: str) -> None:
    head = "ConsumeMessageThread_billing_1 TID: 1 STATE: BLOCKED\n"
    for one in (text, head + "".join(f"ConsumeMessageThread_billing_1 {line}\n" for line in text.splitlines())):
        found = stacks_of(one, "billing", *WHO)
        for stack in found.stacks if found is not None else ():
            assert len(stack.frames) <= FRAMES_INNERMOST + FRAMES_OUTERMOST + 1
            assert all(len(frame) <= 200 for frame in stack.frames)
