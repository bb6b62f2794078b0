"""The database's clock decides what is due, over or late; this host's where nothing else can (docs/operations.md)."""

import re
from pathlib import Path

PLUGINS = Path(__file__).parents[2] / "plugins"
THIS_HOSTS = {
    "offsetguard/store/database.py": "SQLite's is this host's",
    "offsetguard/sources/rocketmq/client.py": "when something was read",
    "offsetguard/collect/collector.py": "when a round ended",
    "offsetguard_airflow/operators/collect.py": "when a round began",
    "offsetguard/deliver/channels/slack.py": "what Slack's date means for a wait",
    "offsetguard/deliver/channels/one_post.py": "a robot checks when a message was signed",
    "offsetguard/deliver/channels/webhook.py": "so does who takes the webhook",
    "offsetguard/lake/upkeep/clean.py": "commits to Iceberg carry it",
    "offsetguard/lake/upkeep/commit_times.py": "commits to Iceberg carry it",
    "offsetguard_airflow/operators/housekeeping.py": "days of retention",
    "offsetguard_airflow/operators/spark_job.py": "for a process of this host",
    "offsetguard_airflow/operators/spark_jobs.py": "how long a job took",
    "offsetguard_airflow/hooks.py": "the file that this host's monitoring reads",
    "offsetguard/views/course.py": "where a span ends that somebody asks for without an end",
    "offsetguard_airflow/web/forms.py": "a token is good for twelve hours",
}


def test_who_asks_this_hosts_clock_has_a_reason() -> None:
    asking = {
        file.relative_to(PLUGINS).as_posix()
        for file in PLUGINS.rglob("*.py")
        if re.search(r"datetime\.now\(|\btime\.time\(\)", file.read_text(encoding="utf-8"))
    }
    commands = {name for name in asking if name.startswith("offsetguard/cli/")}
    unexplained = asking - commands - THIS_HOSTS.keys()
    assert unexplained == set(), "ask offsetguard.store.database.database_time, or say here why not"
    assert commands & {"offsetguard/cli/silences.py", "offsetguard/cli/incidents.py"} == set()
