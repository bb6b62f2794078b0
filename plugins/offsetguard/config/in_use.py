"""The configuration that tasks work with: the file as it is now, or while it is broken the last one that was right.

Every task reads the file when it runs, so a change holds from the next task on, without a restart. A file that was
found right is kept beside our data. Breaking it must not end collection, judgement and delivery: they go on with the
kept one, each task logs what is wrong, and the rule `config_broken` tells the default team.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from offsetguard.config import Config
from offsetguard.config.file import load_config, parse_config, read_config_text
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ConfigInUse:
    """What a task goes by."""

    config: Config
    problem: str | None = None  # what is wrong with the file, a line for each mistake; None: it is the file


def config_in_use(workspace: Workspace) -> ConfigInUse:
    """Return what holds now; raises ConfigError when the file is broken and none that was right is kept."""
    kept = workspace.last_good_config_file
    try:
        text = read_config_text(workspace.config_file)
        config = parse_config(workspace.config_file, text).config
    except ConfigError as error:
        return ConfigInUse(_last_good(kept, error), str(error))
    _keep(kept, text)
    return ConfigInUse(config)


def _last_good(kept: Path, broken: ConfigError) -> Config:
    if not kept.is_file():
        raise broken
    try:
        return load_config(kept)
    except ConfigError:  # another release wrote it: what is said of the user's own file helps more
        raise broken from None


def _keep(kept: Path, text: str) -> None:
    """Write the text in one step: whoever reads at the same time sees the old one or the new one."""
    if kept.is_file() and kept.read_text(encoding="utf-8") == text:
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", dir=kept.parent, prefix=f".{kept.name}.", encoding="utf-8", newline="", delete=False
    ) as written:
        written.write(text)
        written.flush()
        os.fsync(written.fileno())
    Path(written.name).replace(kept)
