"""What a rule finds in each of its cases reads as Chinese in mail and Slack, and is told by the reader's clock."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from offsetguard.catalogue import Sentence, catalogue
from offsetguard.catalogue.text import ENGLISH_UTC, Locale
from offsetguard.decide.incidents.lifecycle import opened_by
from offsetguard.decide.incidents.visibility import Unanswered
from offsetguard.decide.message_views import MessageContext, message_view
from offsetguard.deliver.messages.slack import render_slack
from offsetguard.judge.incident_words import IncidentWords
from offsetguard.judge.registry import RULES, judge, run_rules
from offsetguard.judge.windows.windows import judge_queues
from offsetguard.model.incident import Incident
from offsetguard.model.notification import GroupKey
from offsetguard.model.views import MessageView, NotificationReason
from offsetguard_peers.cases.messages import mail_of, text_objects
from offsetguard_peers.cases.rules import config_of, facts_of, fold_ahead
from offsetguard_peers.cases.running import for_each, is_thorough, read_cases
from offsetguard_peers.cases.texts import english_words

CASES = sorted((Path(__file__).parents[1] / "judge" / "rules" / "cases").glob("*.yml"))
CHINESE = Locale.of("zh", "Asia/Shanghai")
HOSTILE = "</td><script>\u202e{lag_ms:duration}\r\nBcc: <!channel> %s"
NAMES = frozenset({"operations", "demo", "orders", *RULES})
NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)


@pytest.fixture(scope="module", autouse=True)
def folded() -> None:
    fold_ahead(case["facts"] for path in CASES for case in cases(path))


def cases(path: Path) -> list[dict[str, Any]]:
    """Return the cases of one rule."""
    found: list[dict[str, Any]] = read_cases(path)
    return found


@cache
def incidents(path: Path, number: int) -> tuple[Incident, ...]:
    """Open an incident for each finding in one of a rule's cases, explained ones too, with what could not be told."""
    case = cases(path)[number]
    config = config_of(case.get("config", []))
    facts = judge_queues(facts_of(case["facts"]), config)
    judgement = judge(facts, config)
    found, _ = run_rules(facts, config)
    unanswered = Unanswered(judgement.cannot_tell)
    return tuple(
        opened_by(finding, facts.interval, unanswered.beside(finding)) for finding in (*judgement.findings, *found)
    )


def view_of(incident: Incident, locale: Locale, *, over: bool = False) -> MessageView:
    """Return the message about one incident, or about its end."""
    told = MessageContext(language=locale.language.value, time_zone=str(locale.zone), repeat_count=2)
    key = GroupKey("operations", incident.subject.cluster, incident.subject.rule_id)
    return message_view(
        key,
        firing=() if over else (incident,),
        resolved=((incident, None),) if over else (),
        reason=NotificationReason.ALL_RESOLVED if over else NotificationReason.REPEAT,
        interval_start=incident.opened_at,
        thread_key="thread",
        config=config_of([]),
        context=told,
    )


def slack_of(view: MessageView) -> str:
    """Return all that a Slack message shows, one text per line."""
    message = render_slack(view, idempotency_key="key", in_threads=False)
    return "\n".join([message.text, *(each["text"] for each in text_objects(message.blocks))])


def names_of(value: Any) -> Iterator[str]:
    """Give every text of a case's facts: names, and what brokers said."""
    if isinstance(value, dict):
        yield from (name for below in value.values() for name in names_of(below))
    elif isinstance(value, list):
        yield from (name for below in value for name in names_of(below))
    elif isinstance(value, str):
        yield from (value, *value.split("/"), *value.split())


@for_each("path", CASES, name_of=lambda path: path.stem)
def test_no_english_is_left_in_a_chinese_message(path: Path) -> None:
    """Of every variant one message; where there is time those of all cases, and so every set of figures."""
    missing = set(RULES[path.stem].texts)
    for number, case in enumerate(cases(path)):
        if not missing and not is_thorough():
            break
        names = NAMES.union(names_of(case["facts"]))
        for incident in incidents(path, number):
            rule_id, evidence = incident.subject.rule_id, incident.evidence
            if not is_thorough() and (rule_id != path.stem or evidence.variant not in missing):
                continue
            missing.discard(evidence.variant)
            over = replace(incident, resolved_at=NOW, resolution=RULES[rule_id].recovered)
            for view in (view_of(incident, CHINESE), view_of(over, CHINESE, over=True)):
                mail = mail_of(view)
                for said in (mail.message["Subject"], mail.text, slack_of(view)):
                    assert not english_words(said, names), (rule_id, case["why"], said)


def first(rule_id: str, variant: str) -> Incident:
    """Return an incident of one rule and variant."""
    path = next(one for one in CASES if one.stem == rule_id)
    found = (incident for number in range(len(cases(path))) for incident in incidents(path, number))
    return next(one for one in found if (one.subject.rule_id, one.evidence.variant) == (rule_id, variant))


def test_a_message_reads_as_an_operator_would_write_it() -> None:
    mail = mail_of(view_of(first("accumulation", "growing"), CHINESE))
    assert mail.message["Subject"] == "[警告] demo · billing · 消息堆积"
    assert "billing 在 orders 上堆积 600 条消息，且仍在增加" in mail.text
    assert "请增加客户端（顺序消费组请增加队列）或提高监听器的处理速度" in mail.text
    assert "mqadmin consumerStatus -n '10.0.0.1:9876;10.0.0.2:9876' -g billing -s" in mail.text
    assert "2026-11-21 18:39:00 UTC+8" in mail.text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_moments_in_every_text_follow_the_readers_zone(language: str) -> None:
    """The cause names when the offsets were set: 10:39:30 UTC."""
    incident = first("offset_reset", "moved_back")
    for zone, shown in (("UTC", "10:39:30 UTC"), ("Asia/Kolkata", "16:09:30 UTC+5:30")):
        view = view_of(incident, Locale.of(language, zone))
        mail = mail_of(view)
        for said in (mail.text, mail.html, slack_of(view)):
            assert shown in said
            assert zone == "UTC" or "10:39:30" not in said


def test_an_end_that_is_not_a_recovery_is_told_in_the_readers_language() -> None:
    gone = Sentence("group_is_gone", consumer_group="billing")
    incident = replace(first("accumulation", "growing"), resolved_at=NOW, resolution=gone)
    view = view_of(incident, CHINESE, over=True)
    for said in (mail_of(view).text, slack_of(view)):
        assert "消费组 billing 已不存在" in said


def test_what_is_not_seen_any_more_says_why_in_the_readers_language() -> None:
    because = Sentence("gave_no_offsets", brokers="broker-a")
    incident = replace(first("accumulation", "growing"), unknown_since=NOW, unknown_because=because)
    cause = IncidentWords(incident, CHINESE).cause
    assert cause.startswith("目前无法观测（broker-a 没有返回位点）。此前：消费组 billing")


@pytest.mark.parametrize("locale", [ENGLISH_UTC, CHINESE], ids=["en", "zh"])
def test_what_is_not_seen_any_more_is_headed_by_when_it_was_seen_last(locale: Locale) -> None:
    """Else it stands in subjects and lists as if it were so now."""
    before = first("accumulation", "growing")
    incident = replace(before, newest_read_at=NOW, unknown_since=NOW, unknown_because="broker-a gave no offsets")
    words = IncidentWords(incident, locale)
    last_seen = catalogue(locale).say("last_seen", at=NOW, summary=IncidentWords(before, locale).summary)
    assert words.summary == last_seen
    assert catalogue(locale).moment(NOW) in last_seen
    view = view_of(incident, locale)
    for said in (mail_of(view).text.split("\n")[0], slack_of(view).split("\n")[0], view.firing[0].summary):
        assert last_seen in said


def test_an_incident_that_another_release_kept_stays_english() -> None:
    """Without figures, or of a rule or variant that is gone: better in English than not at all."""
    incident = first("accumulation", "growing")
    no_figures = replace(incident, evidence=replace(incident.evidence, text_figures={}))
    no_rule = replace(incident, evidence=replace(incident.evidence, rule_id="of_yesterday"), resolution="recovered")
    no_variant = replace(incident, evidence=replace(incident.evidence, variant="of_yesterday"))
    for one in (no_figures, no_rule, no_variant):
        assert IncidentWords(one, CHINESE).summary == incident.evidence.summary
    assert IncidentWords(no_rule, CHINESE).resolution == "recovered"


def test_in_english_and_utc_the_words_are_those_that_were_kept() -> None:
    for path in CASES:
        for number in range(len(cases(path)[:3])):
            for incident in incidents(path, number):
                words, evidence = IncidentWords(incident, ENGLISH_UTC), incident.evidence
                kept = (evidence.summary, evidence.cause, evidence.do_next)
                assert (words.summary, words.cause, words.do_next) == kept


@pytest.mark.parametrize("rule_id", ["accumulation", "lock_not_released", "offset_store_not_persisting"])
def test_hostile_names_stay_harmless_in_chinese(rule_id: str) -> None:
    """Names are figures of the texts: they fill nothing in, break no line and become no markup."""
    incident = first(rule_id, "default")
    figures = {
        name: HOSTILE if isinstance(figure, str) else figure for name, figure in incident.evidence.text_figures.items()
    }
    subject = replace(incident.subject, consumer_group=HOSTILE, topic=HOSTILE)
    evidence = replace(incident.evidence, text_figures=figures)
    view = view_of(replace(incident, subject=subject, evidence=evidence), CHINESE)
    mail, message = mail_of(view), render_slack(view, idempotency_key="key", in_threads=False)
    for said in (mail.message["Subject"], mail.text, mail.html, slack_of(view)):
        assert "\u202e" not in said
        assert "{lag_ms:duration}" in said
    assert "\nBcc:" not in f"{mail.message['Subject']}\n{mail.text}"
    assert "<script" not in mail.html
    markup = [each["text"] for each in text_objects(message.blocks) if each["type"] == "mrkdwn"]
    assert not any("<!channel>" in said for said in (message.text, *markup))
