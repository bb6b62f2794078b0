"""config/offsetguard.yml: clusters, groups, teams, routes and delivery, as one typed model: `configuration.Config`.

No secrets in it: logins come from Airflow connections, whose ids stand here.
`file.load_config` reads the file and says where in it something is wrong.
"""

from offsetguard.config.configuration import Cluster, Collection, Config, FleetCollection, LogSource, Retention, Tls
from offsetguard.config.fields import TimeZone
from offsetguard.config.groups import EffectivePolicy, GroupPolicy, Judgement, WindowPolicy
from offsetguard.config.routes import Delivery, Team
