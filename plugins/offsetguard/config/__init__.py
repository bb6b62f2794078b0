"""config/offsetguard.yml: clusters, groups, teams, routes and delivery, as one typed model; one file per section.

No secrets in it: logins come from Airflow connections, whose ids stand here.
`config_file.load_config` reads the file and says where in it something is wrong.
"""

from offsetguard.config.clusters import Cluster, Collection, LogSource, Tls
from offsetguard.config.configuration import Config
from offsetguard.config.delivery import Delivery
from offsetguard.config.fields import TimeZone
from offsetguard.config.groups import EffectivePolicy, GroupPolicy, WindowPolicy
from offsetguard.config.judgement import Judgement
from offsetguard.config.references import reference_problems
from offsetguard.config.retention import Retention
from offsetguard.config.routes import Maintenance, QuietHours, Route, RouteEntry
from offsetguard.config.routing import RouteChoice
from offsetguard.config.sections import field_names
from offsetguard.config.teams import RECEIVER_LISTS, Team

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
    "field_names",
    "reference_problems",
]
