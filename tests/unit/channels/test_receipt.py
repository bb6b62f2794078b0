"""The receipts of a Slack thread tell which message is its parent."""

from __future__ import annotations

import pytest

from offsetguard.deliver.channels.receipt import SlackParent, slack_parent

THREADS = [
    ([], None, "nothing was accepted"),
    (["C1 1.1"], "1.1", "the first message"),
    (["C1 1.1", "C1 2.2 1.1"], "1.1", "a reply names its parent"),
    (["C1 1.1", "C1 2.2", "C1 3.3"], "1.1", "replies of the release before name none"),
    (["C1 1.1", "C1 2.2 1.1", "C1 3.3 3.3"], "3.3", "a parent in place of one that was deleted"),
    (["C1 1.1", "C1 3.3 3.3", "C1 4.4 3.3"], "3.3", "replies to it"),
]


@pytest.mark.parametrize(("receipts", "ts", "why"), THREADS, ids=[case[2] for case in THREADS])
def test_the_newest_receipt_that_names_a_parent_decides(receipts: list[str], ts: str | None, why: str) -> None:
    assert slack_parent(receipts) == (None if ts is None else SlackParent("C1", ts)), why
