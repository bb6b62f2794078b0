"""Pages that the Airflow API server shows behind its login, one file each: found here.

A page has `routes(may_write)`: `may_write` is what routes that change something depend on. This file imports none of
them: every process of Airflow asks for the names, and only the API server for the pages.
"""

import pkgutil


def names() -> list[str]:
    """Return the pages by their files, such as `data_docs`."""
    return sorted(one.name for one in pkgutil.iter_modules(__path__))


def path_of(name: str) -> str:
    """Return where a page is, below the prefix of all of them."""
    return f"/{name.replace('_', '-')}"
