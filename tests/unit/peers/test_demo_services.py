"""The demo's services have a right configuration and leave alone what is not theirs."""

from pathlib import Path

import pytest

from offsetguard.config.file import load_config
from offsetguard_peers.demo.services import main, own_address


def test_the_configuration_has_both_clusters_and_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "offsetguard.yml"
    assert main(["config", "--out", str(file), "--page-url", "http://airflow.test"]) == 0
    config = load_config(file)
    assert {name: (cluster.name_servers, cluster.proxies) for name, cluster in config.clusters.items()} == {
        "rocketmq-4": (["rocketmq-4:9876"], []),
        "rocketmq-5": (["rocketmq-5:9876"], ["rocketmq-5:8080"]),
    }
    assert config.delivery.page_url == "http://airflow.test"


def test_only_an_address_of_this_machine_is_advertised() -> None:
    assert own_address("localhost") == "127.0.0.1"
    for host, reason in (("192.0.2.77", "no address of this machine"), ("nowhere.invalid", "nowhere.invalid: ")):
        with pytest.raises(OSError, match=reason):
            own_address(host)


def test_a_folder_with_other_things_in_it_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thesis = tmp_path / "rocketmq" / "thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("years of work")
    options = ["--version", "4.9.7", "--host", "127.0.0.1", "--folder", str(tmp_path), "--free-ports"]
    assert main(["rocketmq", *options]) == 1
    assert "choose another with --folder" in capsys.readouterr().err
    assert thesis.read_text() == "years of work"
