"""The checker of claims finds what is false of a world that it knows, and nothing else."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from offsetguard.judge.registry import RULES
from offsetguard.model.verdicts import Severity
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.trials.claims.checker import Checker
from offsetguard_peers.trials.claims.reading import lines_of_html, strings_in
from offsetguard_peers.trials.claims.truth import ENDS_WITH, RULES_OF, Kind, Look, Round, Trouble, Truth, trouble_of

CASES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("claims.yml").read_text(encoding="utf-8"))
TEN = datetime(2026, 11, 27, 10, tzinfo=UTC)
NOW = Round(TEN + timedelta(seconds=601), TEN + timedelta(seconds=603), TEN + timedelta(seconds=660))
NAMES = ("billing", "ledger", "stock", "mailer", "exports", "images", "audits", "photos", "refunds", "returns", "gates")


def minute(number: float) -> datetime:
    return TEN + timedelta(minutes=number)


def world() -> Truth:
    """Five messages a second to each group; two have committed nothing since 10:00:00, and one lost 2,002."""
    truth = Truth(
        frozenset(f"{name}-worker" for name in NAMES),
        [
            Trouble(Kind.OFFLINE, "billing-worker", minute(0)),
            Trouble(Kind.OFFLINE, "stock-worker", minute(0)),
            Trouble(Kind.LOST, "stock-worker", minute(4)),
            Trouble(Kind.RESET, "mailer-worker", minute(5), minute(5), {"repeated": (550, 650)}),
            Trouble(Kind.OFFLINE, "exports-worker", minute(1), minute(8)),
            Trouble(Kind.OFFLINE, "images-worker", minute(0)),
            Trouble(Kind.HANG, "photos-worker", minute(0)),
            Trouble(Kind.GONE, "audits-worker", minute(7)),
            Trouble(Kind.BEYOND, "refunds-worker", minute(2), minute(8)),
            Trouble(Kind.BROKER, "refunds-worker", minute(-3), minute(1)),
            Trouble(Kind.LOST, "returns-worker", minute(-2), minute(7)),
            Trouble(Kind.OFFLINE, "gates-worker", minute(4)),
            Trouble(Kind.BROKER, "gates-worker", minute(4), minute(7.5)),
        ],
        clients={f"{name}-worker": [(minute(-5), 1)] for name in NAMES},
    )
    for name in ("billing", "stock", "images"):
        truth.clients[f"{name}-worker"].append((minute(0), 0))
    truth.clients["gates-worker"].append((minute(4), 0))
    truth.clients["exports-worker"] += [(minute(1), 0), (minute(8), 1)]
    for name in NAMES:
        stands = name in {"billing", "stock", "images", "photos"}
        looks = truth.looks.setdefault(f"{name}-worker", [])
        for second in range(-300, 605, 5):
            end = 1_500 + 5 * second
            low = end if stands and name == "stock" else 0
            committed = min(end, 1_500) if stands else end
            low = committed + 2_002 if name == "stock" and second >= 240 else 0
            if name == "refunds" and 120 <= second < 480:
                committed = 1_500 + 5 * 120 + 2_000
            if name == "refunds" and second < -170:  # founded anew just when its broker went away
                committed = None
            if name == "gates":  # its broker is away from 10:04:00 to 10:07:30
                if 240 < second < 450:
                    continue
                committed = 1_500 + 5 * min(240, second)
                end = committed + 5 * max(0, second - 449)
            if name == "audits" and second >= 600:  # deleted while they were in process
                low = end
            if name == "returns":  # stands still twice until a part is deleted, and goes on behind that
                waits = next((since for since, until in ((-200, 90), (200, 420)) if since <= second < until), second)
                committed = 1_500 + 5 * waits
                low = next((low for since, low in ((400, 3_300), (60, 1_400)) if second >= since), 0)
            looks.append(Look(TEN + timedelta(seconds=second), ((low, max(end, low), committed),)))
    return truth


@for_each("case", CASES, lambda case: case["said"])
def test_false_sentences_are_found_and_true_ones_pass(case: dict[str, Any]) -> None:
    checker = Checker(world())
    checker.acknowledged["images-worker", trouble_of("consumer_offline")] = (
        minute(5),
        Severity.WARNING,
        "consumer_offline",
    )
    if "acknowledged_min" in case:
        at = minute(case["acknowledged_min"])
        shown_by = case.get("acknowledged_rule", "messages_lost")
        checker.acknowledged["returns-worker", trouble_of(shown_by)] = at, Severity.CRITICAL, shown_by
    where = case.get("of", "mail")
    group = where.removeprefix("page of ") if where.startswith("page of ") else None
    checker.read(where, "", Round(minute(2) + timedelta(seconds=1), minute(2.75), minute(3)))
    checker.read(where, case["said"], NOW, group=group, mail=where == "mail")
    found = [one.why for one in checker.false]
    wanted = case["why"].split("; ") if "why" in case else []
    assert len(found) == len(wanted), found
    assert all(any(words in one for one in found) for words in wanted), found


def test_what_may_be_said_is_said_by_rules_that_there_are() -> None:
    assert set[str]().union(*RULES_OF.values(), *ENDS_WITH.values()) <= set(RULES)


@pytest.mark.parametrize("now", [Severity.INFO, None])
def test_a_severity_that_falls_while_nothing_changes_is_false(now: Severity | None) -> None:
    checker = Checker(world())
    checker.see_open(NOW, {"billing-worker": Severity.CRITICAL, "exports-worker": Severity.CRITICAL})
    checker.see_open(NOW, {"billing-worker": now} if now else {})
    assert [one.said.line for one in checker.false] == [f"billing-worker: critical became {now or 'nothing'}"]


def test_pages_and_slack_are_read_as_people_see_them() -> None:
    page = "<head><title>a</title></head><p><b>stock-worker</b> is&nbsp;offline</p><td>1</td>"
    assert [one for one in lines_of_html(page).split("\n") if one] == ["stock-worker is\xa0offline", "1"]
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "`stock-worker` was reset"}}]
    assert list(strings_in(blocks)) == ["stock-worker was reset"]
