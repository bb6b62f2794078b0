"""Where our pages are served below Airflow's own address: the plugin mounts them there, messages link there."""

from urllib.parse import quote

URL_PREFIX = "/offsetguard"
DATA_DOCS_PATH = "/data-docs"  # below URL_PREFIX
INCIDENTS_PATH = "/incidents"  # below URL_PREFIX
ACKNOWLEDGE, SILENCE = "acknowledge", "silence"  # ids of the forms on an incident's page


def data_docs_url(page_url: str, cluster: str) -> str:
    """Return the address of a cluster's Data Docs; `page_url`: Airflow's own, as `delivery.page_url` has it."""
    return f"{page_url.rstrip('/')}{URL_PREFIX}{DATA_DOCS_PATH}/{quote(cluster, safe='')}/index.html"


def incident_url(page_url: str, incident_id: str) -> str:
    """Return the address of an incident's page, with its forms `#acknowledge` and `#silence`."""
    return f"{page_url.rstrip('/')}{URL_PREFIX}{INCIDENTS_PATH}/{quote(incident_id, safe='')}"
