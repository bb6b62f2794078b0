"""What lists share: how an address asks for one, and which rows are on a page of it."""

from collections.abc import Sequence
from typing import Annotated, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

ROWS = 100  # on one page: groups, incidents, changes
Row = TypeVar("Row")

Asked = Annotated[str, Field(max_length=255, pattern=r"^[^\x00]*$")]  # empty: whatever
EMPTY_IS_NONE = BeforeValidator(lambda given: given or None)  # as forms say it


class AskedPage(BaseModel):
    """Which page of a list is wanted; what else is asked stands in the fields of who inherits it."""

    model_config = ConfigDict(frozen=True)

    page: Annotated[int, Field(ge=1, le=1_000_000)] = 1  # of a hundred rows each


class Page(NamedTuple, Generic[Row]):
    """One page of a list."""

    rows: Sequence[Row]
    number: int  # the last one where there are not so many
    pages: int  # how many there are; there is always one


def page_count(count: int, size: int = ROWS) -> int:
    """Return on how many pages so many rows are; there is always one."""
    return max(1, -(-count // size))


def page_of(rows: Sequence[Row], number: int, size: int = ROWS) -> Page[Row]:
    """Return a page of a list that is there as a whole."""
    pages = page_count(len(rows), size)
    number = min(number, pages)
    return Page(rows[(number - 1) * size : number * size], number, pages)
