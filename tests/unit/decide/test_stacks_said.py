"""What the threads of a client did stands beside what is wrong: from the facts to the incident, and in its words."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from offsetguard.catalogue import catalogue
from offsetguard.catalogue.text import ENGLISH_UTC, Language, Locale
from offsetguard.cli.finding_output import finding_document, findings_as_text
from offsetguard.judge.incident_words import stack_views
from offsetguard.judge.registry import RULES, judge
from offsetguard.judge.rule import Finding
from offsetguard.model.fact_records import ClientStacks, ThreadStack, as_text
from offsetguard_peers.cases.rules import config_of, facts_of
from offsetguard_peers.cases.running import for_each, read_cases
from offsetguard_peers.judging.records import START, after, facts, finding, opened, row

CASES = Path(__file__).parents[1] / "judge" / "rules" / "cases"
LISTENER = "com.acme.OrderListener.consumeMessage:42"
STACKS = ClientStacks(
    "10.0.0.1@7",
    START,
    thread_count=20,
    idle_count=2,
    stacks=(
        ThreadStack(1, "WAITING", ("com.acme.Zone.pick:7",), "java.lang.Object.wait", thread="RebalanceService"),
        ThreadStack(8, "RUNNABLE", ("com.acme.Http.execute:88", LISTENER), "java.net.Socket.read", True),
        ThreadStack(4, "BLOCKED", (LISTENER,)),
        ThreadStack(3, "RUNNABLE", (LISTENER,)),
    ),
)
_HEAD = "10.0.0.1@7 at 2026-11-21 10:39:00 UTC"


def _said(stacks: ClientStacks, language: Language = Language.EN) -> list[tuple[str, tuple[str, ...]]]:
    locale = ENGLISH_UTC if language is Language.EN else Locale(language)
    return [(one.said, one.frames) for one in stack_views(stacks, catalogue(locale))]


def test_each_stack_is_one_line_and_threads_without_one_are_counted() -> None:
    assert _said(STACKS) == [
        (f"client {_HEAD}", ()),
        ("thread RebalanceService, waiting in java.lang.Object.wait", ("com.acme.Zone.pick:7",)),
        (
            "8 of 20 consume threads, waiting for the network in java.net.Socket.read",
            ("com.acme.Http.execute:88", LISTENER),
        ),
        ("4 of 20 consume threads, blocked by another thread that holds the monitor", (LISTENER,)),
        ("3 of 20 consume threads, running", (LISTENER,)),
        ("3 of 20 consume threads, with other stacks", ()),
        ("2 of 20 consume threads, idle", ()),
    ]
    assert _said(STACKS, Language.ZH)[2] == (
        "20 个消费线程中的 8 个，等待网络，位于 java.net.Socket.read",
        ("com.acme.Http.execute:88", LISTENER),
    )


@for_each(
    "why",
    ["stacks_not_java", "stacks_nobody_asks", "stacks_silent", "stacks_not_said", "stacks_no_threads"],
)
def test_what_nobody_could_tell_is_called_so(why: str) -> None:
    untold = ClientStacks("10.0.0.1@7", START, cannot_tell=why)
    ((english, _),), ((chinese, _),) = _said(untold), _said(untold, Language.ZH)
    assert english.startswith(f"client {_HEAD}: cannot tell, since ")
    assert "无法判断，因为" in chinese


def _judged(case: str, rule_id: str, stacks: ClientStacks) -> Finding:
    """Return what a rule's first case finds, where a client of each group was asked."""
    given = facts_of(read_cases(CASES / f"{case}.yml")[0]["facts"])
    given = replace(given, groups=tuple(replace(one, client_stacks=as_text(stacks)) for one in given.groups))
    findings = judge(given, config_of([])).findings
    return next(one for one in findings if one.rule.id == rule_id)


def test_a_rule_that_is_about_what_stands_shows_what_the_threads_did() -> None:
    found = _judged("poison_message", "poison_message", STACKS)
    assert found.stacks == STACKS
    assert _judged("poison_message", "poison_message", ClientStacks("10.0.0.1@7", START)).stacks is None, "it is over"
    assert _judged("dead_letters", "dead_letters", STACKS).stacks is None, "nothing stands there"
    (chain,) = (line for line in findings_as_text([found]) if "com.acme.Http" in line)
    assert chain.strip().endswith(f"java.net.Socket.read: com.acme.Http.execute:88 ← {LISTENER}")
    document = finding_document(found)["stacks"]
    assert (document["client_id"], document["thread_count"]) == ("10.0.0.1@7", 20)
    assert document["stacks"][1]["frames"] == ("com.acme.Http.execute:88", LISTENER)


def test_no_name_of_a_client_or_a_class_can_steer_a_terminal() -> None:
    hostile = ClientStacks("a\x1b[31m", START, 1, stacks=(ThreadStack(1, "BLOCKED", ("com.acme.\u202eX.y:1",)),))
    text = "\n".join(findings_as_text([_judged("poison_message", "poison_message", hostile)]))
    assert "a\\x1b[31m" in text
    assert "\u202e" not in text


def test_an_incident_keeps_what_was_seen_when_a_newer_look_does_not_show_it() -> None:
    (rule,) = (one for one in RULES.values() if one.id == "accumulation")
    assert rule.shows_stacks
    incidents = opened(replace(finding("accumulation"), stacks=STACKS))
    (again,) = after(incidents, facts(1, row()), finding("accumulation")).seen_again
    assert again.evidence.stacks == STACKS
    newer = replace(STACKS, taken_at=START + timedelta(minutes=10))
    (again,) = after((again,), facts(2, row()), replace(finding("accumulation"), stacks=newer)).seen_again
    assert again.evidence.stacks == newer
