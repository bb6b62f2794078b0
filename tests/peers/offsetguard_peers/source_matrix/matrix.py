"""What the collector can learn from which replica of which RocketMQ version: the sources, and the page about them.

The sources and their words stand in `sources.yml`; whether a replica answers is measured (`measuring.py`) and
kept in `tests/live/source_matrix.yml`; `docs/sources.md` is made of both.

    python -m offsetguard_peers.source_matrix > docs/sources.md      the page
    python -m offsetguard_peers.source_matrix --measure [VERSION]    measure again on real brokers, and keep it
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from offsetguard_peers.rocketmq.cluster import VERSIONS
from offsetguard_peers.source_matrix.measuring import measure
from offsetguard_peers.source_matrix.sources import NO, NOT_IN_VERSION, OWN, SECTIONS, YES, Section, sources

MEASURED_FILE = Path(__file__).parents[3] / "live" / "source_matrix.yml"

LEAST_RIGHTS = {
    "4.9": ("mqadmin updateAclConfig -n {name_server} -c {cluster} -a offsetguard -s {secret} -i SUB -u SUB",),
    "5.x": (
        "mqadmin createUser -n {name_server} -c {cluster} -u offsetguard -p {secret} -t Normal",
        "mqadmin createAcl -n {name_server} -c {cluster} -s User:offsetguard -r 'Cluster:*' -a Get -d Allow",
        "mqadmin createAcl -n {name_server} -c {cluster} -s User:offsetguard -r 'Topic:*,Group:*' -a Get,Sub -d Allow",
    ),
}
"""Commands that make an account with the least rights for a whole round; `test_source_matrix.py` runs them."""

Cells = dict[str, str]  # by role
Measured = dict[str, dict[str, Cells]]  # source -> version -> cells


def read_measured(file: Path = MEASURED_FILE) -> Measured:
    """Read what was measured last."""
    measured: Measured = yaml.safe_load(file.read_text(encoding="utf-8"))
    return measured


def write_measured(version: str, cells: Mapping[str, Cells], file: Path = MEASURED_FILE) -> None:
    """Keep the cells of one version, in the order of the sources; other versions stay as they are."""
    known = read_measured(file) if file.exists() else {}
    ordered: Measured = {}
    for section, source in sources():
        versions = {**known.get(source.name, {}), version: cells[source.name]}
        ordered[source.name] = {
            each: {role: versions[each][role] for role in section.roles_of(source)}
            for each in VERSIONS
            if each in versions
        }
    head = "# Measured on real brokers; write it again with: python -m offsetguard_peers.source_matrix --measure\n"
    text = yaml.safe_dump(ordered, sort_keys=False, default_flow_style=None, width=110)
    file.write_text(head + text, encoding="utf-8")


def page(measured: Measured) -> str:
    """Make docs/sources.md."""
    versions = ", ".join(VERSIONS[:-1])
    lines = [
        "# Sources",
        "",
        f"What each replica of RocketMQ {versions} and {VERSIONS[-1]} tells, measured on brokers from the published "
        "jars by `tests/live/test_source_matrix.py`. This page is made by `make docs`; edit "
        "`tests/peers/offsetguard_peers/source_matrix/sources.yml` instead.",
        "",
        f"*{YES}*: answers with it. *{OWN}*: answers with what it counted itself. *{NO}*: answers without it. "
        f"*{NOT_IN_VERSION}*: the version does not know it. *refused*: RocketMQ's response code.",
    ]
    for section in SECTIONS:
        lines += ["", f"## {section.title}", "", *_table(section, measured)]
        if section.note:
            lines += ["", section.note]
    lines += [
        "",
        "These make an account with no more rights than a whole round needs, as an administrator (`conf/tools.yml` of "
        "mqadmin has his keys). The account's name and secret are login and password of the Airflow connection that "
        "`connection` of the cluster names.",
    ]
    shown = {"name_server": "10.0.0.1:9876", "cluster": "DefaultCluster", "secret": "'a-long-secret'"}
    for line, commands in LEAST_RIGHTS.items():
        lines += ["", f"On {line}:", "", "```bash", *(command.format(**shown) for command in commands), "```"]
    return "\n".join(lines) + "\n"


def _table(section: Section, measured: Measured) -> Iterator[str]:
    """One row for each source; a column that would be empty is left out."""
    answers = [(version, role) for version in VERSIONS for role in section.roles]
    head = ["what", "asked", "lands in"]
    head += [f"{version} {role}" if len(section.roles) > 1 else version for version, role in answers]
    rows = [
        [
            source.title,
            source.asked,
            " ".join(f"`{column}`" for column in source.lands_in),
            *(measured[source.name][version].get(role, "") for version, role in answers),
        ]
        for source in section.sources
    ]
    shown = [number for number in range(len(head)) if any(row[number] for row in rows)]
    yield "| " + " | ".join(head[number] for number in shown) + " |"
    yield "|" + "---|" * len(shown)
    for row in rows:
        yield "| " + " | ".join(row[number] for number in shown) + " |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the page, or measure."""
    parser = argparse.ArgumentParser(prog="python -m offsetguard_peers.source_matrix", description=__doc__)
    parser.add_argument(
        "--measure", action="store_true", help="measure again and keep it, instead of printing the page"
    )
    parser.add_argument("version", nargs="*", help=f"only these of {', '.join(VERSIONS)}")
    options = parser.parse_args(arguments)
    if not options.measure:
        sys.stdout.write(page(read_measured()))
        return 0
    for version in options.version or VERSIONS:
        write_measured(version, measure(version).cells)
    return 0
