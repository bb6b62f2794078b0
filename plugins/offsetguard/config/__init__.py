"""config/offsetguard.yml: clusters, groups, teams, routes and delivery, as one typed model; one file per section.

No secrets in it: logins come from Airflow connections, whose ids stand here.
`file.load_config` reads the file and says where in it something is wrong.
"""

from offsetguard.config.configuration import (
    Cluster,
    Collection,
    Config,
    LogSource,
    Retention,
    Tls,
    reference_problems,
)
from offsetguard.config.fields import TimeZone
from offsetguard.config.groups import EffectivePolicy, GroupPolicy, Judgement, WindowPolicy
from offsetguard.config.routes import (
    RECEIVER_LISTS,
    Delivery,
    Maintenance,
    QuietHours,
    Route,
    RouteChoice,
    RouteEntry,
    Team,
)

__all__ = [
    "RECEIVER_LISTS",
    "Cluster",
    "Collection",
    "Config",
    "Delivery",
    "EffectivePolicy",
    "GroupPolicy",
    "Judgement",
    "LogSource",
    "Maintenance",
    "QuietHours",
    "Retention",
    "Route",
    "RouteChoice",
    "RouteEntry",
    "Team",
    "TimeZone",
    "Tls",
    "WindowPolicy",
    "reference_problems",
]
