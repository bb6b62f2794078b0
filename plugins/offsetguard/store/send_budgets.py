"""How many messages a receiver may still be sent: a token bucket for each, in the database, since deliverers share it.

In any minute at most nine tenths of what it takes: `BURST` at once, and the rest evenly. Whoever is about to send
waits until there is a token, claims a message, and takes the token: two that do so at the same moment take it twice,
for which the tenth is there, and both wait longer for the next one.
"""

from datetime import datetime, timedelta

from sqlalchemy import Engine

from offsetguard.store.database import reading, serialize, writing
from offsetguard.store.models import SendBudgetRow
from offsetguard.store.outbox import Lane

BURST = 3.0  # Feishu takes 5 in a second
_SHARE = 0.9


def wait_for_one(engine: Engine, lane: Lane, *, per_minute: int, now: datetime) -> timedelta:
    """Return how long it is until one more message may be sent; zero: at once."""
    with reading(engine) as session:
        row = session.get(SendBudgetRow, tuple(lane))
        lacks = 0.0 if row is None else max(0.0, 1.0 - _left(row, per_minute, now))
    return timedelta(seconds=lacks / _per_second(per_minute))


def take_one(engine: Engine, lane: Lane, *, per_minute: int, now: datetime) -> None:
    """Count a message that is sent now."""
    with writing(engine) as session:
        serialize(session, f"send budget of {lane.channel} {lane.receiver}")
        row = session.get(SendBudgetRow, tuple(lane))
        left = BURST if row is None else _left(row, per_minute, now)
        session.merge(SendBudgetRow(channel=lane.channel, receiver=lane.receiver, left=left - 1.0, at=now))


def _left(row: SendBudgetRow, per_minute: int, now: datetime) -> float:
    passed_s = max((now - row.at).total_seconds(), 0.0)  # the database's clock may have been put back
    return min(BURST, row.left + passed_s * _per_second(per_minute))


def _per_second(per_minute: int) -> float:
    return (_SHARE * per_minute - BURST) / 60
