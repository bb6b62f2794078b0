"""`offsetguard spark-server`: keep Spark warm on this machine.

It hands over to the Spark side, which this package may not import.
"""

import os
import sys

import click


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def spark_server(arguments: tuple[str, ...]) -> None:
    """Start, stop or look at a warm Spark Connect server on this machine."""
    sys.stdout.flush()
    # In place of this process, so that systemd watches and stops the server itself; no shell is wanted
    os.execv(sys.executable, [sys.executable, "-m", "offsetguard_spark.connect_server", *arguments])  # noqa: S606
