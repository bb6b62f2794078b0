"""The README, followed literally in an empty folder: each line of each code block is run as it stands, or elsewhere.

What a reader has to fill in is filled in: the addresses of their name server and of their mail server.
"""

import logging
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from offsetguard_peers.processes import ChildProcess, ReservedPort
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.staging import stage_backlog
from offsetguard_peers.smtp.server import SmtpServer
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.airflow, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
RUN_BY = {  # the part of `make test-all`, or of CI, that runs a line
    "make demo": "demo",
    "make test": "CI",
    "git clone REPOSITORY offsetguard && cd offsetguard": "this file",
    "docker compose --profile demo up --detach": "compose",
    "docker compose logs airflow-init": "compose",
}
STANDALONE = "airflow standalone"
FOREIGN = ("AIRFLOW", "OFFSETGUARD", "VIRTUAL_ENV")  # what only who runs the tests has
GROUP, TOPIC, BACKLOG = "order-settlement-readme", "settlements-readme", 12_000
PATIENCE_S = 600.0
_log = logging.getLogger(__name__)


def blocks() -> list[str]:
    """Return the code blocks of commands, without what only indents them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = [(indent, block) for indent, language, block in BLOCK.findall(text) if not language]
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def lines_of(block: str) -> list[str]:
    """Return its commands, each in one line and without a comment."""
    joined = block.replace("\\\n", " ").splitlines()
    return [line for one in joined if (line := re.sub(r"\s+", " ", one.partition("    # ")[0]).strip())]


def test_every_line_is_run_here_or_by_another_part() -> None:
    commands = [line for block in blocks() for line in lines_of(block)]
    assert len(commands) > 12
    assert RUN_BY.keys() <= set(commands), "a line of RUN_BY is not in the README any more"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in commands:
        if line.startswith("make "):
            assert re.search(rf"^{line.split()[1]}:", makefile, re.MULTILINE), line


class Reader:
    """Somebody who types the lines of the README one after the other, in a clone of the repository."""

    def __init__(self, folder: Path, filled_in: dict[str, str]) -> None:
        """Clone it; `filled_in`: what stands in the README, and what the reader has instead."""
        self.home, self._filled_in = folder / "offsetguard", filled_in
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self.home)], check=True)
        if (ROOT / ".cache").exists():  # what is fetched from elsewhere
            shutil.copytree(ROOT / ".cache", self.home / ".cache", copy_function=os.link, symlinks=True)
        self._port = ReservedPort()
        address = f"http://localhost:{self._port.port}"  # another Airflow may have the usual port
        self._environment = {
            "AIRFLOW__API__PORT": str(self._port.port),
            "AIRFLOW__API__BASE_URL": address,
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        }
        self._exports: list[str] = []
        self._standalone: ChildProcess | None = None
        self.log_file = folder / "standalone.log"

    def type(self, line: str) -> None:
        """Run a line; what belongs to another part is left to it."""
        if line in RUN_BY:
            return
        for shown, ours in self._filled_in.items():
            line = line.replace(shown, ours)
        if line.startswith("export "):
            self._exports.append(line)
        elif line == STANDALONE:
            foreign = [f"--unset={name}" for name in os.environ if name.startswith(FOREIGN)]
            shell = ["/bin/bash", "-c", "\n".join([*self._exports, f"exec {line}"])]
            command = ["env", *foreign, f"--chdir={self.home}", *shell]
            self._standalone = ChildProcess("airflow standalone", command, self.log_file, self._environment)
        else:
            self._run(line)

    def _run(self, line: str) -> None:
        command = "\n".join([*self._exports, line])
        own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)} | self._environment
        typed = ["/bin/bash", "-c", command]
        done = subprocess.run(typed, cwd=self.home, env=own, capture_output=True, text=True, check=False)
        expected = {0, 1} if " check --namesrv" in line else {0}  # findings
        said = done.stdout[-2_000:] + done.stderr[-2_000:]
        assert done.returncode in expected, f"{line}: code {done.returncode}: {said}"

    def leave(self) -> None:
        """End Airflow, which waits for the task that it runs."""
        if self._standalone is not None:
            self._standalone.stop()
        self._port.release()


def test_the_readme_leads_from_a_clone_to_the_first_true_warning(
    tmp_path: Path, smtp_server: SmtpServer, rocketmq_5: RocketMQCluster
) -> None:
    stage_backlog(rocketmq_5, GROUP, TOPIC, BACKLOG)
    reader = Reader(
        tmp_path,
        {
            "10.0.0.1:9876": rocketmq_5.namesrv,
            "smtp.example.com --conn-port 587": f"{smtp_server.host} --conn-port {smtp_server.port}",
            "--conn-login alerts --conn-password PASSWORD": "",
            '{"disable_ssl": true}': '{"disable_ssl": true, "disable_tls": true}',
        },
    )
    config = reader.home / "config" / "offsetguard.yml"  # the one file that a reader edits
    config.write_text(config.read_text("utf-8").replace("127.0.0.1:9876", rocketmq_5.namesrv), encoding="utf-8")
    began = time.monotonic()

    def is_told() -> bool:
        return any(GROUP in str(mail.message["Subject"]) for mail in smtp_server.mails)

    try:
        for block in blocks():
            for line in lines_of(block):
                reader.type(line)
        wait_until(is_told, lambda: f"a mail; Airflow said {_end_of(reader.log_file)}", timeout_s=PATIENCE_S)
        _log.info("from the first line to the first true warning: %.0f s", time.monotonic() - began)
    finally:
        reader.leave()


def _end_of(file: Path) -> str:
    return file.read_text("utf-8", errors="replace")[-3_000:]
