"""`offsetguard demo`: start the embedded world: brokers in trouble, and warnings.

It hands over to the demo of the test peers, which live in a checkout and not in the wheel.
"""

import os
import sys
from pathlib import Path

import click

_PEERS = Path(__file__).resolve().parents[3] / "tests" / "peers" / "offsetguard_peers"


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def demo(arguments: tuple[str, ...]) -> None:
    """Start real RocketMQ brokers with groups in trouble, and Airflow, and show the warnings that come of it."""
    if not (_PEERS / "demo").is_dir():
        raise click.ClickException(
            "the demo starts real brokers from the tests of a checkout, and this OffsetGuard was installed without "
            "them; clone the repository and run `make demo` in it"
        )
    sys.stdout.flush()
    # In place of this process, so that Ctrl-C and SIGTERM reach the demo itself; no shell is wanted
    os.execv(sys.executable, [sys.executable, "-m", "offsetguard_peers.demo", *arguments])  # noqa: S606
