"""Section `retention`: how long things are kept."""

from typing import Annotated

from offsetguard.constraints import NO_OTHER_FIELDS, Number
from offsetguard.records import record


@record(kw_only=True)
class Retention:
    """How long things are kept, in whole days; `docs/tables.md` says which table holds snapshots and which facts."""

    __pydantic_config__ = NO_OTHER_FIELDS

    snapshots_days: Annotated[int, Number(ge=1)] = 7  # what was seen; also landed files, which facts are made of again
    facts_days: Annotated[int, Number(ge=1)] = 90  # what was made of it; also incidents and messages that are over
