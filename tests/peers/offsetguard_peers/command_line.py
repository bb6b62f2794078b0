"""The command line as people and scripts meet it: arguments in; output, errors and an exit code out."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from offsetguard.cli.main import offsetguard
from offsetguard_peers.scripted.broker import ScriptedBroker, scripted_cluster


def run(
    *arguments: str | Path,
    stdin: str | bytes | None = None,
    environment: Mapping[str, str] | None = None,
    brokers: tuple[ScriptedBroker, ...] = (),
) -> Result:
    """Run a command; `NAMESRV` in the arguments is the address of a name server that lists these brokers."""

    async def start() -> Result:
        async with scripted_cluster(*brokers) as (name_server, _):
            real = [str(argument).replace("NAMESRV", name_server) for argument in arguments]
            return await asyncio.to_thread(CliRunner().invoke, offsetguard, real, input=stdin, env=environment)

    return asyncio.run(start())


def json_lines(result: Result) -> list[dict[str, Any]]:
    """Return the objects that were printed, one a line."""
    return [json.loads(line) for line in result.stdout.splitlines()]
