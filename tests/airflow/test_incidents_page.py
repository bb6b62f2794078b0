"""The pages about incidents, on a real API server: who may see them, who may change something, which forms count."""

import csv
import io
import json
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import escape, unescape
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Locator
from sqlalchemy import Engine

from offsetguard.catalogue import Sentence
from offsetguard.config.workspace import Workspace
from offsetguard.model.fact_records import ClientStacks, ThreadStack
from offsetguard.model.incident import EventKind, Evidence, Incident, IncidentEvent, Subject
from offsetguard.model.intervals import Interval
from offsetguard.model.notification import GroupKey, NotificationKey, Notified, NotifiedIncident
from offsetguard.model.offsets import MessageQueue
from offsetguard.model.verdicts import CannotTell, QueueEvidence, Severity
from offsetguard.store import incidents, notifications, outbox, silences
from offsetguard.store.database import open_database, reading, writing
from offsetguard.tables import GROUP_FACTS
from offsetguard_airflow.web import forms
from offsetguard_peers.airflow.api import AirflowApi
from offsetguard_peers.airflow.standalone import AirflowStandalone
from offsetguard_peers.cases.messages import VIEW
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.lake.warehouse import Warehouse
from offsetguard_peers.pictures.chromium import log_in, open_page

LIST = "/offsetguard/incidents/"
NOW = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>{{ 7*7 }}\u202e'


@pytest.fixture(scope="module")
def engine(airflow: AirflowStandalone) -> Iterator[Engine]:
    """Open the database that the API server reads."""
    opened = open_database(airflow.environment["OFFSETGUARD_DATABASE_URL"])
    yield opened
    opened.dispose()


def stored(engine: Engine, name: str, *, group: str | None = None, **more: object) -> Incident:
    """Keep an incident that no other test uses; its id is made of the name."""
    incident = Incident(
        incident_id=name.encode().hex()[:32],
        subject=Subject("demo", "consumer_offline", group or name, "orders"),
        opened_at=NOW,
        last_seen_at=NOW + timedelta(minutes=4),
        seen_count=1_250,
        evidence=Evidence(
            severity=Severity.CRITICAL,
            state="STOPPED",
            variant="default",
            summary=f"{group or name} is offline and 20,000 messages behind on orders",
            cause=f"No client of {group or name} is online, and 20,000 messages wait on orders, the oldest for 10 min.",
            do_next="Start the consumers, or delete the group if it is retired:",
            commands=(f"mqadmin deleteSubGroup -n 10.0.0.1:9876 -c demo -g {shlex.quote(group or name)} -r true",),
            figures={"effective_lag": 20_000, "lag_ms": 600_000},
            queues=tuple(
                QueueEvidence(MessageQueue("orders", "broker-a", n), {"effective_lag": 5_000}) for n in range(3)
            ),
            queue_count=4,
            broker_names=frozenset({"broker-a"}),
            cannot_tell=(CannotTell("lock_contention", group or name, frozenset(), "lock.log was not read."),),
            stacks=ClientStacks(
                f"{group or name}@1", NOW, 8, stacks=(ThreadStack(8, "BLOCKED", (f"com.acme.{group or name}:42",)),)
            ),
        ),
        peak_figure="effective_lag",
        peak=24_000,
    )
    incident = replace(incident, **more)  # type: ignore[arg-type]
    with writing(engine) as session:
        incidents.save(session, [incident])
        opened = IncidentEvent(incident.incident_id, NOW, EventKind.OPENED, f"critical: {incident.evidence.summary}")
        incidents.record_events(session, [opened])
    return incident


def client(airflow: AirflowStandalone, token: str | None = None, **headers: str) -> httpx.Client:
    """Return a browser's stand-in: it says where its requests come from."""
    given = {"Authorization": f"Bearer {token or airflow.api.token}", "Sec-Fetch-Site": "same-origin", **headers}
    return httpx.Client(base_url=airflow.base_url, headers=given, timeout=60)


def visitor_token(airflow: AirflowStandalone) -> str:
    passwords = json.loads((airflow.folder / "passwords.json").read_text())
    api = AirflowApi(airflow.base_url, "visitor", passwords["visitor"])
    api.close()
    return api.token


def form_token(page: httpx.Response) -> str:
    found = re.search(r'name="token" value="([^"]+)"', page.text)
    assert found, page.text
    return unescape(found[1])


def test_the_login_sees_what_is_open_and_nobody_else_does(airflow: AirflowStandalone, engine: Engine) -> None:
    incident = stored(engine, "seen")
    key = NotificationKey(GroupKey("orders", "demo", "consumer_offline"), "mail", "orders@example.org")
    known = Notified(NOW, "thread", {incident.incident_id: NotifiedIncident(Severity.CRITICAL, NOW, NOW)})
    with writing(engine) as session:
        notifications.save(session, {key: known})
    with client(airflow) as browser:
        listed = browser.get(LIST)
        assert (listed.status_code, incident.evidence.summary in listed.text) == (200, True)
        assert f'href="../incidents/{incident.incident_id}"' in listed.text
        shown = browser.get(LIST + incident.incident_id)
        for text in (
            incident.evidence.cause,
            incident.evidence.do_next,
            *incident.evidence.commands,
            "lock.log was not read.",
            "lag 24,000",
            "orders@example.org",
        ):
            assert text in shown.text
        assert shown.headers["Content-Security-Policy"].startswith("default-src 'none';")
        assert "form-action 'self';" in shown.headers["Content-Security-Policy"]
        assert shown.headers["Cache-Control"] == "private, no-store"
        assert browser.get(LIST.rstrip("/"), follow_redirects=True).status_code == 200
    for path in (LIST, LIST + incident.incident_id):
        refused = httpx.get(airflow.base_url + path, timeout=60)
        assert (refused.status_code, "offline" in refused.text) == (401, False)
    assert httpx.post(airflow.base_url + LIST + incident.incident_id, timeout=60).status_code in (401, 403)


def test_names_from_brokers_are_text_and_nothing_else(airflow: AirflowStandalone, engine: Engine) -> None:
    incident = stored(engine, "hostile", group=HOSTILE)
    with writing(engine) as session:
        silences.acknowledge(session, incident, author=HOSTILE, comment=HOSTILE, now=NOW)
    with client(airflow) as browser:
        for path in (LIST, LIST + incident.incident_id):
            page = browser.get(path).text
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
            assert "<script>" not in page
            assert 'class="copy"' not in page, "what cannot be shown as it is gives no command"
            assert "<img" not in page
            assert "{{ 7*7 }}" in page
            assert r"\u202e" in page
            assert "\u202e" not in page


def test_who_may_only_look_another_site_and_another_users_form_change_nothing(
    airflow: AirflowStandalone, engine: Engine
) -> None:
    incident = stored(engine, "refused")
    path = LIST + incident.incident_id
    form = {"do": "acknowledge"}
    with client(airflow, visitor_token(airflow)) as browser:
        page = browser.get(path)
        assert page.status_code == 200
        assert '<form method="post"' not in page.text
        assert "You can only view" in page.text
        of_another = forms.new_token(airflow.environment["AIRFLOW__API__SECRET_KEY"], "visitor", now_s=time.time())
        assert browser.post(path, data=form | {"token": of_another}).status_code == 403
    with client(airflow) as browser:
        own = form_token(browser.get(path))
        for token in (of_another, "", "0.", "99999999999.abc"):
            assert browser.post(path, data=form | {"token": token}).status_code == 403
        cross = {"Sec-Fetch-Site": "cross-site", "Origin": airflow.base_url}
        assert browser.post(path, data=form | {"token": own}, headers=cross).status_code == 403
    assert not acknowledged(engine, incident)


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"do": "silence", "scope": "incident", "span": "2 h", "comment": " "}, 422),
        ({"do": "silence", "scope": "incident", "span": "9 years", "comment": "c"}, 400),
        ({"do": "silence", "scope": "everything", "span": "2 h", "comment": "c"}, 400),
        ({"do": "expire", "number": "²"}, 400),
        ({"do": "delete"}, 400),
        ({}, 400),
        ({"do": "acknowledge", "comment": "x" * 20_000}, 413),
        ({f"field {n}": "" for n in range(20)}, 400),
    ],
    ids=lambda given: str(given)[:40],
)
def test_a_form_that_no_page_of_ours_sends_is_refused(
    airflow: AirflowStandalone, engine: Engine, form: dict[str, str], status: int
) -> None:
    incident = stored(engine, "odd forms")
    path = LIST + incident.incident_id
    with client(airflow, Accept="text/html") as browser:
        refused = browser.post(path, data={**form, "token": form_token(browser.get(path))})
    assert (refused.status_code, refused.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
    assert "Nothing was changed" in refused.text
    assert not acknowledged(engine, incident)


def test_what_nobody_knows_or_needs_to_know_is_not_there(airflow: AirflowStandalone, engine: Engine) -> None:
    pending = stored(engine, "pending", is_pending=True)
    with client(airflow) as browser:
        for name in (pending.incident_id, "0123", "..%2f..", "%00", "<b>"):
            refused = browser.get(LIST + name)
            assert (refused.status_code, "<b>" in refused.text) == (404, False)


def test_a_database_that_somebody_else_locks_is_asked_for_another_try(
    airflow: AirflowStandalone, engine: Engine
) -> None:
    incident = stored(engine, "locked")
    path = LIST + incident.incident_id
    with client(airflow, Accept="text/html") as browser:
        form = {"do": "acknowledge", "comment": "", "token": form_token(browser.get(path))}
        with writing(engine) as session:
            session.connection()  # BEGIN IMMEDIATE: nobody else writes meanwhile
            refused = browser.post(path, data=form)
            assert (refused.status_code, "try again" in refused.text) == (503, True)
        assert browser.post(path, data=form).status_code == 303
    assert acknowledged(engine, incident)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00"])
def test_a_moment_that_no_other_can_be_reckoned_from_is_refused(airflow: AirflowStandalone, moment: str) -> None:
    with client(airflow) as browser:
        assert browser.get(f"{LIST}?open_at={moment}").status_code == 422


def test_a_damaged_database_is_named_with_what_to_do(airflow: AirflowStandalone, engine: Engine) -> None:
    with client(airflow, Accept="text/html") as browser:
        assert browser.get(LIST).status_code == 200
        stored(engine, "before-the-damage")  # what a worker keeps of the file in memory does not hold any more
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("COMMIT")  # of the transaction that each connection of ours begins with
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        with Path(engine.url.database or "").open("r+b") as file:
            kept = file.read()
            try:
                file.seek(0)
                file.write(b"\xff" * len(kept))
                file.flush()
                refused = browser.get(LIST)
            finally:
                file.seek(0)
                file.write(kept)
        stored(engine, "after-the-damage")  # what a worker read of it meanwhile does not hold any more, either
        assert browser.get(LIST).status_code == 200
    assert (refused.status_code, "it is damaged: stop what writes to it" in refused.text) == (503, True)


def test_the_address_says_which_incidents_are_listed_and_gives_them_as_data(
    airflow: AirflowStandalone, engine: Engine
) -> None:
    open_one = stored(engine, "listed-open", group="listed-one")
    past = stored(engine, "listed-past", group="listed-two", resolved_at=NOW + timedelta(hours=1), resolution="over")
    other = replace(open_one.evidence, severity=Severity.WARNING)
    stored(engine, "listed-warning", group="listed-three", evidence=other)
    with client(airflow) as browser:

        def ids(query: str) -> list[str]:
            view = browser.get(f"{LIST}?search=listed-&{query}", headers={"Accept": "application/json"}).json()
            return [one["incident_id"] for one in view["incidents"]]

        assert ids("")[0] == open_one.incident_id
        assert (len(ids("")), ids("")[-1]) == (3, past.incident_id), "what is over comes last"
        assert ids("state=past&team=&severity=") == [past.incident_id]
        assert ids("state=open&severity=critical&cluster=demo&rule=consumer_offline") == [open_one.incident_id]
        assert ids("rule=another") == ids("team=nobody") == []
        page = browser.get(f"{LIST}?search=listed-&state=past").text
        for text in ('<option value="past" selected>', '<option value="consumer_offline">', 'value="listed-"'):
            assert text in page
        assert "2 open" not in page
        assert "0 open, 1 past" in page
        row = next(csv.DictReader(io.StringIO(browser.get(f"{LIST}?search=listed-&format=csv").text)))
        assert (row["incident_id"], row["consumer_group"], row["team"]) == (open_one.incident_id, "listed-one", "")
        for query in ("state=lost", "severity=bad", "page=0", f"search={'x' * 256}", "team=%00"):
            assert browser.get(f"{LIST}?{query}").status_code == 422
        hostile = browser.get(LIST, params={"search": '"><script>x</script>', "team": "<b>"}).text
        assert "<script>x" not in hostile
        assert "<b>" not in hostile
        assert "No incidents match." in hostile


def test_a_hundred_incidents_stand_on_a_page(airflow: AirflowStandalone, engine: Engine) -> None:
    many = [
        replace(one, incident_id=f"{number:032}", subject=replace(one.subject, consumer_group=f"paged-{number:03}"))
        for one in [stored(engine, "paged", resolved_at=NOW, resolution="over")]
        for number in range(101)
    ]
    with writing(engine) as session:
        incidents.save(session, many)
    with client(airflow) as browser:
        first = browser.get(f"{LIST}?search=paged-&state=past").text
        assert "0 open, 101 past · page 1 of 2" in first
        following = re.search(r'rel="next" href="([^"]+)"', first)
        assert following is not None
        second = browser.get(LIST + unescape(following[1])).text
        assert second.count('class="badge over"') == 1


def test_chinese_readers_follow_an_incident_in_chinese_by_their_own_clock(
    airflow: AirflowStandalone, engine: Engine
) -> None:
    incident = stored(engine, "chinese")
    with writing(engine) as session:
        silences.acknowledge(session, incident, author="li", comment="重启消费者", now=NOW)
        unmuted = IncidentEvent(incident.incident_id, NOW, EventKind.UNMUTED, Sentence("event_unmuted"))
        incidents.record_events(session, [unmuted])
    with client(airflow, Cookie="offsetguard_zone=Asia%2FShanghai") as browser:
        listed = browser.get(f"{LIST}?lang=zh&search=chinese").text
        for text in ('<html lang="zh">', "未恢复 1 个", "级别", "li 已确认"):
            assert text in listed
        shown = browser.get(f"{LIST}{incident.incident_id}?lang=zh").text
        for text in (
            "时间线",
            "已确认",
            "静默结束",
            "不再有静默",
            "重启消费者",
            "原因（必填）",
            "2026-11-21 18:39:00 UTC+8",
        ):
            assert text in shown
        assert 'title="2026-11-21 10:39:00 UTC"' in shown
        token = unescape(form_token(browser.get(f"{LIST}{incident.incident_id}?lang=zh")))
        again = browser.post(f"{LIST}{incident.incident_id}?lang=zh", data={"do": "acknowledge", "token": token})
        assert again.headers["Location"] == f"{incident.incident_id}?lang=zh#state"


def test_one_incident_is_given_as_data_with_its_timeline(airflow: AirflowStandalone, engine: Engine) -> None:
    incident = stored(engine, "as data")
    with client(airflow, Accept="application/json") as browser:
        view = browser.get(LIST + incident.incident_id).json()
        assert (view["summary"], view["lost"], view["courses"]) == (incident.evidence.summary, None, [])
        assert [(one["kind"], one["at"]) for one in view["timeline"]] == [("opened", "2026-11-21T10:39:00Z")]
        (event,) = csv.DictReader(io.StringIO(browser.get(f"{LIST}{incident.incident_id}?format=csv").text))
        assert event["text"] == f"critical: {incident.evidence.summary}"
        assert browser.get(LIST + "nobody").status_code == 404


def test_beside_a_recipient_of_any_channel_stands_why_it_was_not_reached(
    airflow: AirflowStandalone, engine: Engine
) -> None:
    incident, why = stored(engine, "not reached"), "the robot <b>refused</b> the message: 93000 invalid webhook url"
    known = Notified(NOW, "not reached", {incident.incident_id: NotifiedIncident(Severity.CRITICAL, NOW, NOW)})
    group, night = GroupKey("orders", "demo", "consumer_offline"), outbox.Lane("wecom", "night")
    view = VIEW.model_copy(update={"thread_key": "not reached"})
    with writing(engine) as session:
        lanes = (night, ("dingtalk", "day"), ("feishu", "lark"), ("webhook", "hook"), ("alertmanager", "am"))
        notifications.save(session, {NotificationKey(group, *one): known for one in lanes})
        outbox.enqueue(session, idempotency_key="not reached", channel="wecom", receiver="night", view=view, now=NOW)
    message = outbox.claim_next(engine, night, now=NOW, claim_ms=60_000)
    assert message is not None
    outbox.mark_retry(engine, message, next_attempt_at=NOW, error=why)
    with client(airflow) as browser:
        page = browser.get(LIST + incident.incident_id).text
        for text in ("WeCom · night", "DingTalk · day", "Feishu · lark", "webhook · hook", "Alertmanager · am"):
            assert text in page
        assert re.search(rf"not delivered</span> <code[^>]*>{re.escape(escape(why))}</code>", page)
        assert page.count("not delivered") == 1
        assert "企业微信 · night" in browser.get(f"{LIST}{incident.incident_id}?lang=zh").text


def test_an_incident_has_its_course_what_was_lost_and_ways_to_all_about_it(
    airflow: AirflowStandalone, engine: Engine, workspace_folder: Path
) -> None:
    url = airflow.environment["OFFSETGUARD_DATABASE_URL"]
    warehouse = Warehouse(Workspace(workspace_folder, workspace_folder / "none.yml", url), (GROUP_FACTS,))
    opened = Interval.containing(datetime.now(UTC) - timedelta(minutes=10))
    for number, lost in enumerate((0, 30)):
        interval = Interval(opened.start + timedelta(minutes=number))
        facts = {"consumer_group": "plotted", "topic": "orders", "effective_lag": 700, "lost": lost}
        warehouse.publish("demo", interval, {GROUP_FACTS: [facts]}, manifest_json=manifest_of(interval).to_json())
    warehouse.engine.dispose()
    incident = stored(engine, "plotted", opened_at=opened.start)
    with client(airflow) as browser:
        page = browser.get(LIST + incident.incident_id).text
        for text in ("<svg ", 'class="band critical"', "hatch", "greatest 700", "at least 30"):
            assert text in page
        for address in ("../fleet/group?", "../fleet/topic?", "../data-docs/demo/index.html"):
            found = re.search(rf'href="({re.escape(address)}[^"]*)"', page)
            assert found is not None, address
            assert browser.get(LIST + unescape(found[1])).status_code == 200, address


def test_an_incident_that_is_over_has_no_forms(airflow: AirflowStandalone, engine: Engine) -> None:
    over = stored(engine, "over", resolved_at=NOW + timedelta(hours=1), resolution="recovered: clients are online")
    with client(airflow) as browser:
        page = browser.get(LIST + over.incident_id).text
    assert "recovered: clients are online" in page
    assert '<form method="post"' not in page


@pytest.mark.browser
def test_people_acknowledge_and_silence_in_airflow_under_their_own_name(
    airflow: AirflowStandalone, engine: Engine, tmp_path: Path
) -> None:
    """With a real browser, in the frame that Airflow puts plugins' pages into."""
    incident = stored(engine, "by hand")
    with open_page(height=1400) as page:
        page.set_default_timeout(120_000)
        page.goto(airflow.base_url)
        page.wait_for_url("**/auth/login**")
        log_in(page, airflow.username, airflow.password)
        page.get_by_role("link", name="Fleet").click()
        page.frame_locator("iframe").get_by_role("link", name="Incidents").click()
        frame = page.frame_locator("iframe")
        frame.get_by_role("link", name=incident.evidence.summary).click()
        comment = frame.get_by_label("What you are doing about it")
        frame.get_by_role("button", name="Copy", exact=True).click()
        frame.get_by_role("button", name="Copy ✓").wait_for()
        comment.press("Control+V")
        assert (comment.input_value(),) == incident.evidence.commands
        comment.fill("restarting the consumers")
        frame.get_by_role("button", name="Acknowledge").click()
        frame.get_by_text("acknowledged by you at").wait_for()
        frame.get_by_label("Reason").fill("known, <b>deployment</b>")
        frame.get_by_label("For", exact=True).select_option("8 h")
        frame.get_by_role("button", name="Silence").click()
        frame.get_by_role("heading", name="Silenced by").wait_for()
        page.screenshot(path=tmp_path / "incident.png", full_page=True)
    with reading(engine) as session:
        given = silences.acknowledgements_of(session, [incident.incident_id])[incident.incident_id]
        (silence,) = [one for one in silences.newest(session, limit=100) if one.matches(incident)]
    assert (given.author, given.comment) == ("admin", "restarting the consumers")
    assert (silence.author, silence.comment) == ("admin", "known, <b>deployment</b>")
    assert silence.ends_at - silence.starts_at == timedelta(hours=8)
    assert silence.matchers.named == {
        "cluster": "demo",
        "consumer_group": "by hand",
        "topic": "orders",
        "rule": "consumer_offline",
    }


@pytest.mark.browser
def test_what_to_know_stands_above_the_fold_and_who_comes_to_acknowledge_sees_what(
    airflow: AirflowStandalone, engine: Engine, workspace_folder: Path
) -> None:
    url = airflow.environment["OFFSETGUARD_DATABASE_URL"]
    warehouse = Warehouse(Workspace(workspace_folder, workspace_folder / "none.yml", url), (GROUP_FACTS,))
    opened = Interval.containing(datetime.now(UTC) - timedelta(minutes=10))
    facts = {"consumer_group": "folded", "topic": "orders", "effective_lag": 700, "lost": 0}
    warehouse.publish("folds", opened, {GROUP_FACTS: [facts]}, manifest_json=manifest_of(opened).to_json())
    warehouse.engine.dispose()
    subject = Subject("folds", "consumer_offline", "folded", "orders")
    incident = stored(engine, "folded", opened_at=opened.start, subject=subject)
    with open_page(width=1280, height=800) as page:
        page.set_default_timeout(120_000)
        page.goto(f"{airflow.base_url}{LIST}")
        log_in(page, airflow.username, airflow.password)
        page.wait_for_url(f"**{LIST}")
        page.wait_for_load_state("networkidle")  # the first page ever tells the reader's zone, and loads again
        page.goto(f"{airflow.base_url}{LIST}{incident.incident_id}")
        cause = page.get_by_text(incident.evidence.cause)
        for part in (page.locator("h1"), page.locator("#summary figure"), cause, page.locator(".next pre")):
            assert lies_within(part, 800)
        for name in ("Acknowledge", "Silence"):
            assert lies_within(page.get_by_role("button", name=name), 800)
        for width in (1280, 390):
            page.goto("about:blank")
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(f"{airflow.base_url}{LIST}{incident.incident_id}#acknowledge")
            assert lies_within(page.locator("h1"), 800)
            assert lies_within(page.get_by_label("What you are doing about it"), 800)
        page.get_by_role("button", name="Acknowledge").click()
        said = page.locator("#state").get_by_text(re.compile(r"acknowledged by you at \d\d:\d\d"))
        said.wait_for()
        assert lies_within(said, 800)
        assert lies_within(page.locator("h1"), 800)


def lies_within(part: Locator, height: float) -> bool:
    """Whether a reader sees all of it without scrolling."""
    box = part.bounding_box()
    return box is not None and box["y"] >= 0 and box["y"] + box["height"] <= height


def test_a_silence_can_be_ended_on_the_page_of_what_it_mutes(airflow: AirflowStandalone, engine: Engine) -> None:
    incident = stored(engine, "ended")
    path = LIST + incident.incident_id
    with client(airflow) as browser:
        token = form_token(browser.get(path))
        silenced = browser.post(
            path, data={"do": "silence", "scope": "group", "span": "30 min", "comment": "load test", "token": token}
        )
        assert (silenced.status_code, silenced.headers["Location"]) == (303, f"{incident.incident_id}#state")
        shown = browser.get(path).text
        number = re.search(r'name="number" value="(\d+)"', shown)
        assert number, shown
        browser.post(path, data={"do": "expire", "number": number[1], "token": token})
        assert "Silenced by" not in browser.get(path).text
    with reading(engine) as session:
        silence = silences.by_id(session, int(number[1]))
    assert silence is not None
    assert silence.expired_at is not None
    assert silence.ends_at - silence.starts_at == timedelta(minutes=30)
    assert silence.matchers.named == {"cluster": "demo", "consumer_group": "ended"}


def acknowledged(engine: Engine, incident: Incident) -> bool:
    with reading(engine) as session:
        return bool(silences.acknowledgements_of(session, [incident.incident_id]))
