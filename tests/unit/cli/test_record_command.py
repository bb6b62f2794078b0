"""`offsetguard record` says in its bundle what whoever reads it cannot know."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from offsetguard.cli.main import offsetguard
from offsetguard.sources.bundle.layout import read_meta

CLIENTS_LOG = '{name: app, files: ["/srv/app/*.log"], time_zone: "+02:00"}'
BROKERS_LOG = '{name: a, files: ["/srv/a/*.log"], broker_name: broker-a, time_zone: "+09:00"}'


@pytest.mark.parametrize(
    ("logs", "option", "zone"),
    [
        pytest.param([], [], "+08:00", id="what brokers write wherever they run"),
        pytest.param([CLIENTS_LOG], [], "+08:00", id="a client's zone says nothing of brokers"),
        pytest.param([CLIENTS_LOG, BROKERS_LOG], [], "+09:00", id="as configured"),
        pytest.param([BROKERS_LOG], ["--log-time-zone", "-03:00"], "-03:00", id="the option comes first"),
    ],
)
def test_a_bundle_says_in_which_zone_brokers_write_their_logs(
    tmp_path: Path, logs: list[str], option: list[str], zone: str
) -> None:
    config, bundle = tmp_path / "offsetguard.yml", tmp_path / "bundle"
    config.write_text(
        f'clusters:\n  main: {{name_servers: ["127.0.0.1:9"], logs: [{", ".join(logs)}]}}\n'
        "teams:\n  ops: {mail: [ops@example.com]}\ndefault_team: ops\n"
    )
    command = ["record", "--config", str(config), *option, "--for", "10ms", "--every", "10ms", "--out", str(bundle)]
    recorded = CliRunner().invoke(offsetguard, command)
    assert recorded.exit_code == 2, "nobody listens there"
    assert ": 1 rounds, " in recorded.output, "the next one would begin when the time is over"
    assert read_meta(bundle).log_time_zone == zone
