"""What RocketMQ's settings say of its rebalance lock.

A client renews the locks of an orderly group every `rocketmq.client.rebalance.lockInterval` (20 s by default); a broker
forgets a lock `rocketmq.broker.rebalance.lockMaxLiveTime` (60 s by default) after its last renewal.
Source: RebalanceLockManager, ConsumeMessageOrderlyService (4.9.8, 5.3.3).
"""

from datetime import timedelta

LOCK_INTERVALS_PER_LIFE = 3  # with fewer, two late renewals hand a queue to another client while the first consumes

REBALANCE_INTERVAL_MS = 20_000  # rocketmq.client.rebalance.waitInterval: how often a client asks for a lock again

LOCK_SILENCE = timedelta(seconds=90)  # four rebalances and a late one: who was not refused meanwhile waits no more
