"""How many rows an UPDATE or DELETE changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import CursorResult

if TYPE_CHECKING:
    from sqlalchemy import Delete, Update
    from sqlalchemy.orm import Session


def count_changed(session: Session, statement: Update | Delete) -> int:
    """Run a statement; returns how many rows it changed."""
    changed = session.execute(statement.execution_options(synchronize_session=False))
    if not isinstance(changed, CursorResult):
        raise TypeError(f"{type(statement).__name__} gave {type(changed).__name__}, not a CursorResult")
    return changed.rowcount
