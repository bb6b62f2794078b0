"""How many topics, groups, or offsets of all masters fit into a round, so that their rows are made and landed in time.

A client may commit offsets under any names, and whoever reaches a name server may register brokers. Masters that the
round before listed go first, then those that have the least. Of one that does not fit nothing is taken: a part of its
groups would look like all of them. It is unknown then, and that is told.
"""

import asyncio
from collections.abc import Collection
from itertools import accumulate


class Allowance:
    """So many entries for all masters; each says once how many it has."""

    def __init__(self, masters: Collection[str], known: Collection[str], most: int) -> None:
        """`masters`: the broker names that will ask; `known`: those of the round before."""
        self.most = most
        self._known = frozenset(known)
        self._missing = set(masters)
        self._share = most // max(1, len(self._missing))
        self._counts: dict[str, int] = {}
        self._complete = asyncio.Event()

    async def admits(self, broker_name: str, count: int) -> bool:
        """Say how many entries a master has, 0 where it did not answer; return whether they are taken.

        Who has more than an equal share waits for what the others leave of theirs.
        """
        self._counts[broker_name] = count
        self._missing.discard(broker_name)
        if not self._missing:
            self._complete.set()
        if count <= self._share:
            return True
        await self._complete.wait()
        in_order = sorted(self._counts, key=lambda name: (name not in self._known, self._counts[name], name))
        totals = accumulate(self._counts[name] for name in in_order)
        return broker_name in {name for name, total in zip(in_order, totals, strict=True) if total <= self.most}
