"""What docker-compose.yml, .env.example and the Dockerfile promise, read from the files alone."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[3]
COMPOSE = (REPOSITORY / "docker-compose.yml").read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE)["services"]
ONE_SHOT = {"secrets", "airflow-init", "demo-config", "offsetguard"}
STAYING = set(SERVICES) - ONE_SHOT
REAL_USE = {name for name in STAYING if "profiles" not in SERVICES[name]}


def test_every_container_may_do_nothing_but_its_work() -> None:
    for name, service in SERVICES.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert "cap_add" not in service, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["init"], name
        assert service["logging"]["options"]["max-size"], name
        assert "mem_limit" in service, name
        assert not service.get("privileged"), name


def test_whatever_stays_comes_back_and_says_how_it_is() -> None:
    for name in STAYING:
        assert SERVICES[name]["restart"] == "unless-stopped", name
        assert SERVICES[name]["stop_grace_period"], name
    assert {name for name in STAYING if "healthcheck" not in SERVICES[name]} == {"spark-worker"}


def test_ports_are_this_machines_own() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_all_parts_of_real_use_fit_into_8_gib() -> None:
    limits = [str(SERVICES[name]["mem_limit"]) for name in REAL_USE]
    megabytes = [int(re.sub(r".*:-(\d+)m\}|(\d+)m", r"\1\2", limit)) for limit in limits]
    assert len(megabytes) == 6
    assert sum(megabytes) <= 8 * 1024


def test_every_variable_is_explained_and_none_is_left_over() -> None:
    production = REPOSITORY / "compose" / "production.yml"
    text = "\n".join(file.read_text(encoding="utf-8") for file in (REPOSITORY / "docker-compose.yml", production))
    used = set(re.findall(r"(?<!\$)\$\{([A-Z_0-9]+)", text))
    passed = {name for name, value in SERVICES["airflow-init"]["environment"].items() if value is None}
    passed |= {name for name, value in SERVICES["offsetguard"]["environment"].items() if value is None}
    lines = (REPOSITORY / ".env.example").read_text(encoding="utf-8").splitlines()
    explained = {match[1] for line in lines if (match := re.match(r"#? ?([A-Z_0-9]+)=", line))}
    assert explained == used | passed


def test_no_secret_has_a_default() -> None:
    """Those of .env.example are empty, and the file of Compose names none."""
    lines = (REPOSITORY / ".env.example").read_text(encoding="utf-8").splitlines()
    secret = re.compile(r"#? ?[A-Z_]*(PASSWORD|TOKEN|SECRET|_KEY)[A-Z_]*=(.*)")
    assert [line for line in lines if (match := secret.match(line)) and match[2]] == []
    assert re.findall(r"(?i)password[^_\n]*:-|://[^\s@/]+:[^\s@/]+@", COMPOSE) == []


def test_labels_and_pins_are_those_of_the_locked_environment() -> None:
    dockerfile = (REPOSITORY / "compose" / "Dockerfile").read_text(encoding="utf-8")
    labels = dict(re.findall(r'([a-z.-]+)="([^"]+)"', dockerfile))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = dict(line.split("==") for line in project["dependencies"] if "==" in line)
    jars = (REPOSITORY / "spark/offsetguard_spark/jar_sets/iceberg.txt").read_text(encoding="utf-8")
    assert labels["org.opencontainers.image.version"] == project["version"]
    assert labels["offsetguard.airflow"] == pinned["apache-airflow"]
    assert labels["offsetguard.spark"] == pinned["pyspark[connect,sql]"]
    assert labels["offsetguard.great-expectations"] == pinned["great-expectations"]
    assert f"iceberg-spark-runtime-4.1_2.13:{labels['offsetguard.iceberg']}" in jars
    assert f"openjdk-{labels['offsetguard.java']}-jre" in dockerfile
    images = re.findall(r"(?:_IMAGE(?::-|=))([a-z][^\s}]*)", COMPOSE + dockerfile)
    assert images
    assert all(re.search(r":\d+\.\d+\.\d+|:\d+\.\d+-", image) for image in images), images


@pytest.mark.parametrize("name", ["compose/Dockerfile", "docker-compose.yml"])
def test_the_classic_builder_and_older_engines_understand_it(name: str) -> None:
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    assert re.findall(r"# syntax=|RUN --mount|<<EOF|COPY --chmod|start_interval|additional_contexts", text) == []
