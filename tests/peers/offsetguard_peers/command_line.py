"""The command line as people and scripts meet it: arguments in; output, errors and an exit code out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from offsetguard.cli.main import offsetguard
from offsetguard.config.workspace import Workspace
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


def environment_of(workspace: Workspace) -> dict[str, str]:
    """Return the variables by which a command finds a workspace."""
    return {
        "OFFSETGUARD_HOME": str(workspace.home),
        "OFFSETGUARD_CONFIG": str(workspace.config_file),
        "OFFSETGUARD_DATABASE_URL": workspace.database_url,
        "OFFSETGUARD_CATALOG_URL": workspace.catalog_url,
    }
