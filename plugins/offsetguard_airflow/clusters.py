"""Which clusters a run is about."""

from __future__ import annotations

from offsetguard.model.errors import ConfigError

ALL_CLUSTERS = "all"


def chosen_clusters(cluster: str) -> list[str]:
    """Return the configured clusters that the trigger form's field names; raises ConfigError for an unknown name."""
    from offsetguard.config.file import config_in_use, did_you_mean
    from offsetguard.config.workspace import Workspace

    workspace = Workspace.from_environment()
    config_file = workspace.config_file
    known = sorted(config_in_use(workspace).config.clusters)
    if cluster == ALL_CLUSTERS and cluster not in known:
        return known
    if cluster not in known:
        raise ConfigError(
            f"{config_file}: clusters: there is no cluster {cluster!r}{did_you_mean(cluster, known)}; "
            f"clusters: {', '.join(known)}. Trigger again with one of them, or with {ALL_CLUSTERS!r}"
        )
    return [cluster]
