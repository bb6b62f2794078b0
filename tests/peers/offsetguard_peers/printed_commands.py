"""The commands that texts print: which rules print them, where they were run, and how to run one as printed.

python -m offsetguard_peers.printed_commands docs/messages.md     write the table there again (`make docs`)
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from offsetguard.judge.evidence import lookups
from offsetguard.judge.registry import RULES
from offsetguard_peers.rocketmq.admin import WITHIN_S, mqadmin_command, mqadmin_environment
from offsetguard_peers.rocketmq.cluster import RocketMQCluster

RUN_ON = ("4.9.7", "5.5.0")
"""The lines on which `tests/live/test_printed_commands.py` runs them."""

ONLY_ON = {"REPLICATION": ("5.5.0",), "PRINT_GIVEN_UP": ("4.9.7", "5.3.3")}  # test_held_back.py shows the latter
_BEGIN, _END = "<!-- commands: written by make docs -->\n", "<!-- end of commands -->\n"


def templates() -> Mapping[str, str]:
    """Return the commands by the names of their constants."""
    return {
        name: text
        for name, text in vars(lookups).items()
        if name.isupper() and name[0] != "_" and isinstance(text, str) and text.startswith("mqadmin")
    }


def versions_of(name: str) -> tuple[str, ...]:
    """Return the versions whose admin tool has a command."""
    return ONLY_ON.get(name, RUN_ON)


def printed_by(template: str) -> list[str]:
    """Return the rules that print a command."""
    return [rule.id for rule in RULES.values() if any(template in one.commands for one in rule.texts.values())]


def with_table(page: str) -> str:
    """Return the page with the table of today between its marks."""
    head, rest = page.split(_BEGIN)
    return head + _BEGIN + "\n".join([*_table(), "", ""]) + _END + rest.split(_END)[1]


def _table() -> Iterator[str]:
    yield "| command | printed by | run on |"
    yield "|---|---|---|"
    for name, template in sorted(templates().items(), key=lambda one: one[1]):
        rules = ", ".join(f"`{rule}`" for rule in printed_by(template))
        yield f"| `{template}` | {rules} | {', '.join(versions_of(name))} |"


def run_as_printed(cluster: RocketMQCluster, command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line in a shell that has the cluster's mqadmin on its PATH, from a folder that it may write to."""
    *tool, _, _ = mqadmin_command(cluster)  # without -n: the line names its own name servers
    script = folder / "mqadmin"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(tool)} "$@"\n', encoding="utf-8")
    script.chmod(0o700)
    environment = mqadmin_environment(cluster)
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={**environment, "PATH": f"{folder}{os.pathsep}{environment['PATH']}"},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")
