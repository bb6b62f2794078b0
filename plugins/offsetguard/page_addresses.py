"""Where our pages are served below Airflow's own address: the plugin mounts them there, messages link there."""

URL_PREFIX = "/offsetguard"
DATA_DOCS_PATH = "/data-docs"  # below URL_PREFIX
