"""The demo's surroundings as services, each of which may run in a container of its own (docker-compose.yml).

    python -m offsetguard_peers.demo.services prepare
    python -m offsetguard_peers.demo.services rocketmq --version 5.5.0 --host rocketmq-5 --folder /var/lib/demo
    python -m offsetguard_peers.demo.services rocketmq-healthy --host rocketmq-5
    python -m offsetguard_peers.demo.services receivers --folder /var/lib/demo
    python -m offsetguard_peers.demo.services config --out offsetguard.yml --page-url http://localhost:8080

What they keep lies in their folder: a service that was killed at any moment, and is started again with the folder,
goes on as if nothing had been. `prepare` fills OFFSETGUARD_CACHE, which may be read-only afterwards.

DEMO_SLACK_TOKEN   the bot's token that the Slack simulation takes (default: the one of the tests)
"""

import argparse
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import yaml

from offsetguard.model.errors import OffsetGuardError
from offsetguard.sources.rocketmq.requests import GetBrokerClusterInfo, GetBrokerRuntimeInfo, GetConsumerConnectionList
from offsetguard_peers.demo import groups
from offsetguard_peers.demo.embedded import elapsed_clock
from offsetguard_peers.processes import PeerNotStarted
from offsetguard_peers.robots.server import RobotServer
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.grpc_clients import Proxy
from offsetguard_peers.rocketmq.jvm import class_path, programs_class_path
from offsetguard_peers.rocketmq.requests import ask
from offsetguard_peers.rocketmq.staging import wait_until_saved
from offsetguard_peers.slack.server import SlackServer
from offsetguard_peers.slack.workspace import BOT_TOKEN
from offsetguard_peers.smtp.inbox import InboxPage
from offsetguard_peers.smtp.server import SmtpServer

VERSIONS = ("4.9.7", "5.5.0")
WITH_PROXY = "5.5.0"
NAMESRV_PORT, PROXY_REMOTING_PORT = 9876, 8080
PORTS = {
    "namesrv": NAMESRV_PORT,
    "broker-a-0": 10911,
    "broker-a-1": 10921,
    "proxy-grpc": 8081,
    "proxy-remoting": PROXY_REMOTING_PORT,
}
SMTP_PORT, INBOX_PORT, SLACK_PORT, ROBOTS_PORT = 1025, 8025, 8026, 8027
STAGING, STAGED = "staging", "staged"  # files that say how far a cluster of ours has come
LOOK_EVERY_S = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one service until SIGTERM; returns the exit code: 0 ended as asked (or healthy), 1 not so."""
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except (OSError, OffsetGuardError, PeerNotStarted, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def prepare(_options: argparse.Namespace) -> int:
    """Fetch jars and compile our programs into the cache."""
    class_path(WITH_PROXY, "proxy")
    for version in VERSIONS:
        class_path(version, "broker")
        programs_class_path(version)
    return 0


def rocketmq(options: argparse.Namespace) -> int:
    """Run a cluster with groups in trouble and healthy ones; ends when a process of it does."""
    tell = elapsed_clock()
    host = own_address(options.host)
    folder: Path = options.folder.resolve() / "rocketmq"
    is_staged = _tidied(folder)
    cluster = RocketMQCluster(
        options.version, slaves=1, folder=folder, host=host, ports={} if options.free_ports else PORTS
    )
    tell(f"starting RocketMQ {options.version} at {host} (name server, master, slave)")
    with cluster, ExitStack() as stack:
        tell(f"RocketMQ serves; name server {cluster.namesrv}")
        if not is_staged:
            groups.stage_trouble(cluster, tell)
            _wait_until_saved(cluster)
            (folder / STAGING).rename(folder / STAGED)
        if options.version == WITH_PROXY:
            proxy = stack.enter_context(Proxy(cluster))
            tell(f"the proxy serves; gRPC {proxy.endpoints}, remoting {proxy.remoting_address}")
        stack.enter_context(groups.living_groups(cluster))
        tell("three healthy groups consume, and an orderly one whose lock interval is too long")
        while all(process.alive for process in cluster.processes):
            time.sleep(LOOK_EVERY_S)
        ended = ", ".join(process.name for process in cluster.processes if not process.alive)
        tell(f"error: ended unasked: {ended}; see {folder}/*/output.log")
    return 1


def own_address(host: str) -> str:
    """Resolve a host name to the IPv4 address that it has now and that is this machine's; OSError without one.

    Brokers get addresses, not names: everybody then sees them under the same one, as in a real cluster.
    """
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except socket.gaierror as error:
        msg = f"{host}: {error.strerror}"
        raise OSError(msg) from error
    addresses = [str(each[4][0]) for each in found]
    for address in addresses:
        with socket.socket() as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                continue
            return address
    msg = f"{host} is {', '.join(addresses)}, which is no address of this machine"
    raise OSError(msg)


def rocketmq_healthy(options: argparse.Namespace) -> int:
    """Ask the name server for its brokers, each of these whether it serves, the master for everybody's consumers."""
    brokers = ask(f"{options.host}:{options.port}", GetBrokerClusterInfo()).brokers
    addresses = [address for broker in brokers for address in broker.addresses.values()]
    masters = [broker.master_address for broker in brokers if broker.master_address is not None]
    if len(addresses) < 2 or not masters:
        print(f"error: registered are only {addresses}")
        return 1
    for address in addresses:
        ask(address, GetBrokerRuntimeInfo())
    for group in [*(each.group for each in groups.HEALTHY), groups.SHORT_LOCK[0]]:
        ask(masters[0], GetConsumerConnectionList(group))
    return 0


def receivers(options: argparse.Namespace) -> int:
    """Accept mail, Slack's messages and those of robots, and show them."""
    tell = elapsed_clock()
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    ports = (0, 0, 0, 0) if options.free_ports else (SMTP_PORT, INBOX_PORT, SLACK_PORT, ROBOTS_PORT)
    smtp_port, inbox_port, slack_port, robots_port = ports
    smtp = SmtpServer(mail_folder=folder / "mail", host=options.bind, port=smtp_port)
    slack = SlackServer(host=options.bind, port=slack_port, message_file=folder / "slack.json")
    slack.workspace.token = os.environ.get("DEMO_SLACK_TOKEN") or BOT_TOKEN
    robots = RobotServer(host=options.bind, port=robots_port, message_file=folder / "robots.jsonl")
    with smtp, slack, robots, InboxPage(smtp, host=options.bind, port=inbox_port) as inbox:
        tell(f"{len(smtp.mails)} mails and {len(slack.messages)} Slack messages are kept from before")
        tell(f"listening: SMTP port {smtp.port}, inbox {inbox.url}, Slack {slack.url}, robots {robots.url}")
        while True:
            signal.pause()


def config(options: argparse.Namespace) -> int:
    """Write OffsetGuard's configuration for both clusters."""
    clusters = {
        "rocketmq-4": {"name_servers": [f"rocketmq-4:{NAMESRV_PORT}"]},
        "rocketmq-5": {
            "name_servers": [f"rocketmq-5:{NAMESRV_PORT}"],
            "proxies": [f"rocketmq-5:{PROXY_REMOTING_PORT}"],
        },
    }
    delivery = {"mail_from": "offsetguard@example.com", "page_url": options.page_url}
    whole = {**groups.demo_config(clusters), "delivery": delivery}
    options.out.write_text(yaml.safe_dump(whole, sort_keys=False), encoding="utf-8")
    return 0


def _tidied(folder: Path) -> bool:
    """Delete what killed processes left, all of it if they were still staging; returns whether trouble is staged."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / STAGED).exists():
        for left in [folder / "clients", *folder.glob("*/tmp")]:
            shutil.rmtree(left, ignore_errors=True)
        return True
    if any(folder.iterdir()) and not (folder / STAGING).exists():
        msg = f"{folder} is not empty and not a folder of the demo; choose another with --folder"
        raise OSError(msg)
    (folder / STAGING).touch()
    for left in folder.iterdir():
        if left.is_dir():
            shutil.rmtree(left)
    return False


def _wait_until_saved(cluster: RocketMQCluster) -> None:
    """Return once a kill would not undo what was staged last: brokers write offsets once a second."""
    admin = Admin(cluster)
    for group, topic in (groups.STOPPED, groups.BEYOND_END):
        for broker, queue_id in admin.queues(topic):
            committed = admin.committed(group, topic, queue_id, broker=broker)
            assert committed is not None
            wait_until_saved(broker, group, topic, queue_id, committed)


def _end(_number: int, _frame: object) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # cleaning up is not interrupted
    raise SystemExit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m offsetguard_peers.demo.services",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)

    def command(name: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=(run.__doc__ or "").partition("\n")[0])
        added.set_defaults(run=run)
        return added

    command("prepare", prepare)
    cluster = command("rocketmq", rocketmq)
    cluster.add_argument("--version", choices=VERSIONS, required=True)
    health = command("rocketmq-healthy", rocketmq_healthy)
    health.add_argument("--port", type=int, default=NAMESRV_PORT, help="of the name server")
    for each in (cluster, health):
        each.add_argument("--host", required=True, help="the name or address under which others reach the cluster")
    receiving = command("receivers", receivers)
    receiving.add_argument("--bind", default="0.0.0.0", help="the address to listen at")
    for each in (cluster, receiving):
        each.add_argument("--folder", type=Path, required=True, help="what is kept")
        each.add_argument("--free-ports", action="store_true", help="any that are free, instead of the usual ones")
    configuring = command("config", config)
    configuring.add_argument("--out", type=Path, required=True, metavar="FILE")
    configuring.add_argument("--page-url", default="http://localhost:8080", help="where browsers reach Airflow")
    return parser


if __name__ == "__main__":
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, _end)
    sys.exit(main())
