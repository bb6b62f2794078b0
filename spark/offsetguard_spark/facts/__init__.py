"""Facts that are no SQL file: usual traffic by hour of the week."""

from __future__ import annotations

from offsetguard_spark.facts.traffic import has_traffic_to_fold, traffic_baselines

__all__ = ["has_traffic_to_fold", "traffic_baselines"]
