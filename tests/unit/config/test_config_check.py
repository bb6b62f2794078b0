"""`offsetguard config check` says what it understood and what is wrong; scripts read it by line and exit code."""

import asyncio
from pathlib import Path

import pytest
from click.testing import Result

from offsetguard.config.checks import groups_not_seen
from offsetguard.config.file import read_config_file
from offsetguard.model.notification import RECEIVER_LISTS
from offsetguard.model.verdicts import Severity
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard_peers.command_line import json_lines, run
from offsetguard_peers.scripted.broker import ScriptedBroker, scripted_cluster
from offsetguard_peers.scripted.peer import Conversation

SHORT = """\
clusters:
  orders: {name_servers: ["127.0.0.1:1"], request_timeout_ms: 20000}
teams:
  operators: {mail: [operators@example.com]}
default_team: operators
groups:
  - match: "order-*"
    max_lag_messages: 500
"""
RIGHT = f"""{SHORT}\
  - match: "order-settlement"
    max_lag_ms: 60_000
"""
SHADOWED = f"{RIGHT}    max_lag_messages: 50\n"


def check(folder: Path, text: str, *options: str) -> Result:
    (folder / "offsetguard.yml").write_text(text, encoding="utf-8")
    return run("config", "check", folder / "offsetguard.yml", *options)


def table(folder: Path, text: str) -> tuple[int, list[str]]:
    result = check(folder, text, "--format", "table")
    return result.exit_code, result.output.replace(str(folder / "offsetguard.yml"), "FILE").splitlines()


def problems(folder: Path, text: str, *options: str) -> tuple[int, list[str]]:
    """Return the exit code, and `line: field: message` of each problem."""
    result = check(folder, text, "--format", "json", *options)
    found = [line for line in json_lines(result) if line["kind"] == "problem"]
    return result.exit_code, [f"{line['line']}: {line['field']}: {line['message']}" for line in found]


def test_a_table_shows_clusters_teams_and_what_each_pattern_sets(tmp_path: Path) -> None:
    assert table(tmp_path, RIGHT) == (
        0,
        [
            "Clusters",
            "  orders: 127.0.0.1:1 (no login)",
            "Teams",
            "  operators: operators@example.com  (default: hears what nobody else owns)",
            "Consumer groups; for each field the first line that sets it wins",
            "  line 7: order-*: max_lag_messages 500",
            "  line 9: order-settlement: max_lag_ms 60,000",
            "  default: *: allowed_lag 0, lag_floor 1,000, lag_floor_ms 60,000, window_ms 1,800,000, "
            "loss_horizon_ms 14,400,000, team operators, max_lag_messages 10,000, max_lag_ms 300,000, orderly no, "
            "lock_interval_ms 20,000",
            "FILE: nothing wrong",
        ],
    )


def test_routes_stand_in_the_table_and_a_note_is_no_problem(tmp_path: Path) -> None:
    routes = """
routes:
  - team: operators
    severity: critical
    slack_webhooks: [hook]
    mail: []
    quiet_hours: [{days: [sat, sun], from: "00:00", to: "24:00"}]
"""
    exit_code, lines = table(tmp_path, RIGHT + routes)
    wrong = "FILE:17: routes[0].quiet_hours[0].to: '24:00' is not a time of day: write '22:00' (in quotes)"
    assert (exit_code, lines[0]) == (1, wrong)
    exit_code, lines = table(tmp_path, RIGHT + routes.replace("24:00", "23:59"))
    assert lines[8:10] == [
        "Routes; for each field the first line that sets it wins",
        "  line 13: team operators, severity critical: mail none, slack_webhooks hook, "
        "quiet_hours days sat + sun from 00:00 to 23:59 severity_below critical",
    ]
    assert lines[10].startswith("FILE:15: routes[0].slack_webhooks: note: a Slack webhook can only add messages")
    assert (exit_code, lines[11:]) == (0, ["FILE: nothing wrong"])


def test_a_field_that_an_entry_above_always_sets_first_is_a_problem(tmp_path: Path) -> None:
    told = (
        "11: groups[1].max_lag_messages: never takes effect: groups[0] in line 7 ('order-*') matches the same groups "
        "and sets it first; move the special case above the general one"
    )
    assert problems(tmp_path, SHADOWED) == (1, [told])


@pytest.mark.parametrize(
    ("above", "below"), [("order-?", "order-*"), ("order-[ab]", "order-a"), ("*-a", "order-*"), ("a*", "[ab]*")]
)
def test_nothing_is_called_shadowed_that_may_take_effect(tmp_path: Path, above: str, below: str) -> None:
    text = SHADOWED.replace("order-*", above).replace("order-settlement", below)
    assert problems(tmp_path, text) == (0, [])


def test_mistakes_come_with_line_and_field(tmp_path: Path) -> None:
    exit_code, (told,) = problems(tmp_path, RIGHT.replace("max_lag_ms", "max_lag"))
    assert exit_code == 1
    assert told.startswith("10: groups[1].max_lag: ")


def test_a_missing_file_is_one_problem(tmp_path: Path) -> None:
    result = run("config", "check", tmp_path / "nowhere.yml", "--format", "table")
    assert result.exit_code == 1
    assert "there is no such file" in result.output


def test_a_cluster_that_cannot_be_seen_is_named_with_its_line_and_is_exit_code_2(tmp_path: Path) -> None:
    """Nothing is said about patterns then: a group that was not seen may exist."""
    exit_code, (told,) = problems(tmp_path, RIGHT, "--live")
    assert exit_code == 2
    assert told.startswith("2: clusters.orders.name_servers[0]: does not answer: 127.0.0.1:1: ")


def check_live(
    folder: Path, *brokers: ScriptedBroker, match: str = "order-*", listed_as: str | None = None
) -> tuple[int, list[str]]:
    """Check against scripted brokers; returns the exit code and the problems.

    `listed_as`: the address under which the name server lists the last broker; `address_map` leads to the real one,
    and another entry of it leads nowhere.
    """

    async def look() -> tuple[int, list[str]]:
        async with scripted_cluster(*brokers) as (name_server, addresses):
            text = SHORT.replace("127.0.0.1:1", name_server).replace("order-*", match)
            if listed_as is not None:
                reachable, addresses[brokers[-1].name] = addresses[brokers[-1].name], listed_as
                address_map = f'address_map: {{"{listed_as}": "{reachable}", "172.17.0.9:10911": "{reachable}"}}'
                text = text.replace("{name_servers", f"{{{address_map}, name_servers")
            return await asyncio.to_thread(problems, folder, text, "--live")

    return asyncio.run(look())


def broker(*groups: str, name: str = "broker-a") -> ScriptedBroker:
    return ScriptedBroker(name, topics={"t": [(0, 10)]}, committed={("t", group): {0: 7} for group in groups})


def test_a_pattern_that_no_group_of_the_cluster_matches_is_told_with_what_was_meant(tmp_path: Path) -> None:
    assert check_live(tmp_path, broker("order-settlement")) == (0, [])
    what = "no consumer group of orders matches 'order-setlement'; did you mean 'order-settlement'?"
    told = check_live(tmp_path, broker("order-settlement"), match="order-setlement")
    assert told == (1, [f"7: groups[0].match: {what}"])


def test_a_route_whose_group_no_cluster_has_is_told_as_well(tmp_path: Path) -> None:
    file = tmp_path / "offsetguard.yml"
    file.write_text(RIGHT + "routes: [{consumer_group: 'ordr-*', language: zh}, {language: en}]\n", encoding="utf-8")
    read = read_config_file(file)
    groups = {"orders": frozenset({"order-1", "order-settlement"})}
    assert [f"{one.field}: {one.what}" for one in groups_not_seen(read, groups)] == [
        "routes[0].consumer_group: no consumer group of orders matches 'ordr-*'; did you mean 'order-1'?"
    ]
    assert list(groups_not_seen(read, {})) == [], "a cluster that was not seen whole may have it"


def test_a_group_on_any_broker_of_the_cluster_matches(tmp_path: Path) -> None:
    assert check_live(tmp_path, broker(), broker("order-1", name="broker-b")) == (0, [])


def test_a_broker_that_does_not_answer_is_named_and_nothing_is_said_about_patterns(tmp_path: Path) -> None:
    async def hang_up(conversation: Conversation, request: RemotingCommand) -> bool:
        conversation.close()
        return True

    exit_code, (told,) = check_live(tmp_path, ScriptedBroker("broker-a", topics={"t": [(0, 10)]}, trouble=hang_up))
    assert exit_code == 2
    assert told.startswith("2: clusters.orders: could not be seen whole: 127.0.0.1:")


def test_brokers_are_reached_through_the_address_map_and_an_entry_without_a_broker_is_told(tmp_path: Path) -> None:
    exit_code, (told,) = check_live(tmp_path, broker("order-1"), listed_as="172.17.0.3:10911")
    assert exit_code == 1
    assert "172.17.0.9:10911" in told
    assert "no name server lists a broker under this address" in told


@pytest.mark.parametrize("field", RECEIVER_LISTS)
def test_a_team_that_has_one_channel_of_whatever_kind_can_be_the_default_team(tmp_path: Path, field: str) -> None:
    receiver = "oncall@example.com" if field == "mail" else "#night" if field == "slack" else "night"
    text = RIGHT.replace("mail: [operators@example.com]", f'{field}: ["{receiver}"]')
    code, found = problems(tmp_path, text)
    assert (code, found) == (0, [])
    config = read_config_file(tmp_path / "offsetguard.yml").config
    route = config.route("operators", "orders", rule_id="consumer_offline", severity=Severity.CRITICAL)
    assert route.receivers == ((RECEIVER_LISTS[field], receiver),)


def test_a_file_that_names_nothing_but_an_alertmanager_is_right_and_routes_lead_there(tmp_path: Path) -> None:
    alone = RIGHT.replace("mail: [operators@example.com]", "")
    code, (problem,) = problems(tmp_path, alone)
    assert (code, problem.split(": ")[1]) == (1, "teams.operators")
    assert "or delivery.alertmanagers" in problem
    code, lines = table(tmp_path, f"{alone}delivery: {{alertmanagers: [am]}}\n")
    assert (code, lines[-1]) == (0, "FILE: nothing wrong")
    assert "  operators: am  (default: hears what nobody else owns)" in lines
    assert lines[-2].endswith("note: has nobody to tell: what it should hear stands in am alone")
    asked = run(
        *("routes", "test", "--cluster", "orders", "--group", "g", "--config", tmp_path / "offsetguard.yml"),
        *("--format", "table"),
    )
    assert "Alertmanager am" in asked.output
