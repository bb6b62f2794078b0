"""The consumer groups of the staged incidents: those in trouble, those that only look like it, and those that are well.

Their names say nothing of what happens to them: `incident_stage.py` does that.
"""

from __future__ import annotations

from typing import NamedTuple

from offsetguard_peers.rocketmq.clients import ConsumerSpec


class Pair(NamedTuple):
    """A consumer group and its topic."""

    group: str
    topic: str


# I1: reads move to the slave while the backlog falls; a group whose consumers are simply gone
ARCHIVE = Pair("order-archive", "archived-orders")
EXPORT = Pair("order-export", "exported-orders")
# I2: a broadcasting client cannot write its offsets; a clustering group that retention overtook once
PRICES = Pair("price-cache", "prices")
STOCK = Pair("stock-sync", "stock-changes")
# I3: a slow consumer; a filter that hides most of the lag; a quiet topic; a busy group that is well
INVOICES = Pair("invoice-render", "invoices")
ALARMS = Pair("alarm-pager", "alarms")
AUDITS = Pair("audit-mail", "audits")
BILLING = Pair("order-billing", "orders")
# I4: an orderly client is killed with its locks; an orderly group that is redeployed as one should
TRADES = Pair("trade-matching", "trades")
PAYMENTS = Pair("payment-ledger", "payments")
# I5: a message that never succeeds; two queues for eighty threads; slow but steady; a full cache that moves
POSTINGS = Pair("ledger-posting", "postings")
BOOKINGS = Pair("seat-booking", "bookings")
LABELS = Pair("label-printing", "labels")
IMAGES = Pair("image-resize", "images")

QUEUES = dict.fromkeys((EXPORT, INVOICES, ALARMS, BILLING, TRADES, PAYMENTS, POSTINGS, LABELS), 4) | dict.fromkeys(
    (ARCHIVE, PRICES, STOCK, AUDITS, BOOKINGS, IMAGES), 2
)
# beside all of them: busy groups that are well
BUSY_COUNT, BUSY_RATE = 25, 20.0
BUSY = tuple(Pair(f"busy-{number:02}", f"busy-events-{number % 5}") for number in range(BUSY_COUNT))
QUEUES |= dict.fromkeys(BUSY, 4)

POISON_KEY, POISON_QUEUE = "posting-poison", 1
WANTED_TAG, OTHER_TAG = "red", "green"

# messages a second that are sent all the time
TRAFFIC = {AUDITS: 0.1, BILLING: 10.0, TRADES: 10.0, PAYMENTS: 10.0, POSTINGS: 10.0, LABELS: 12.0, IMAGES: 2.0}
TRAFFIC |= dict.fromkeys(BUSY[:5], BUSY_RATE)  # one group of each topic stands for it


def spec(pair: Pair, *, tags: str = "*", **options: object) -> ConsumerSpec:
    """One consumer of the group."""
    return ConsumerSpec(pair.group, {pair.topic: tags}, **options)  # type: ignore[arg-type]


# in one JVM: everybody to whom nothing happens, and the members that survive what happens to others
STANDING = (
    spec(AUDITS),
    spec(BILLING),
    spec(INVOICES, handling_ms=2_000, threads=2),
    spec(ALARMS, tags=WANTED_TAG, handling_ms=1_000, threads=1, pull_threshold_for_queue=10),
    spec(TRADES, orderly=True),
    spec(POSTINGS, orderly=True, fail_keys=(POISON_KEY,)),
    spec(BOOKINGS, orderly=True, handling_ms=50, threads=40),
    spec(BOOKINGS, orderly=True, handling_ms=50, threads=40),
    spec(LABELS, orderly=True, handling_ms=200, threads=4),
    spec(IMAGES, handling_ms=20, threads=4, pull_threshold_for_queue=100),
)
BUSY_SPECS = tuple(spec(one, handling_ms=5, threads=2) for one in BUSY)
LOCK_HOLDER = spec(TRADES, orderly=True)
MEMBER = spec(PAYMENTS, orderly=True)
SLAVE_READER = spec(ARCHIVE, handling_ms=100, threads=4, pull_threshold_for_queue=64)
# both keep their instance name, so that the file with the local offsets is found again
BROADCASTING = spec(PRICES, broadcasting=True, instance_name="price-cache", commit_every_ms=500)
OVERTAKEN = spec(STOCK)
