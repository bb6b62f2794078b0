"""The smallest configurations: what a test says nothing of has its default."""

from collections.abc import Mapping
from typing import Any

from offsetguard.config import Config


def one_team(clusters: Mapping[str, Any], *, team: str = "operators", **more: Any) -> Config:
    """Return a configuration of these clusters and one team, which gets mail; `more`: other parts of the file."""
    teams = {team: {"mail": [f"{team}@example.org"]}}
    return Config.model_validate({"clusters": clusters, "teams": teams, "default_team": team, **more})


def one_team_text(**name_servers: str) -> str:
    """Return a file of clusters, each with the address of its name server, and one team, `ops`, which gets mail."""
    clusters = "".join(f"  {name}: {{name_servers: ['{address}']}}\n" for name, address in name_servers.items())
    return f"clusters:\n{clusters}teams: {{ops: {{mail: [ops@example.org]}}}}\ndefault_team: ops\n"
