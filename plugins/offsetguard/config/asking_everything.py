"""Details of all groups in every round: for bundles, whose readers cannot ask again and whose replay burdens nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsetguard.config import Config

EVERYTHING = {"detail_groups": 1_000_000, "share_rounds": 1, "rates": 1_000_000, "running_info_clients": 10_000}


def asking_everything(config: Config, cluster: str) -> Config:
    """Return the configuration with the limits of a cluster's rounds lifted; the pace of requests stays."""
    settings = config.clusters[cluster]
    collection = replace(settings.collection, **EVERYTHING)
    return replace(config, clusters={**config.clusters, cluster: replace(settings, collection=collection)})
