"""The configuration that a task works with; a file that is broken is logged and does not end the task."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetguard.config.file import ConfigInUse
    from offsetguard.config.workspace import Workspace


def configuration(workspace: Workspace, log_error: Callable[[str], object]) -> ConfigInUse:
    """Return what holds now; raises ConfigError when the file is broken and none that was right is kept."""
    from offsetguard.config.file import config_in_use

    found = config_in_use(workspace)
    if found.problem is not None:
        for line in found.problem.splitlines():
            log_error(line)
        log_error("the configuration file is broken; going on with the last one that was right")
    return found
