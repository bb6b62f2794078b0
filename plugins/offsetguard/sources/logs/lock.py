"""Rebalance locks: every line of RebalanceLockManager.

Source: RebalanceLockManager of 4.9.7, 4.9.8, 5.3.3 and 5.5.0; all texts differ between 4.9 and 5.x.
4.x and up to 5.1.0 write them to lock.log; the stock configuration of 5.1.1 and later to filter.log.
A renewal prints nothing. An orderly group locks its `%RETRY%` queues, too.
"""

from functools import partial

from offsetguard.sources.logs.pattern import LogKind, forms, pattern

_line, _forms = partial(pattern, (LogKind.LOCK,)), partial(forms, (LogKind.LOCK,))
_4_9 = "RebalanceLockManager 4.9.7, 4.9.8"
_5 = "RebalanceLockManager 5.3.3, 5.5.0"

_ERROR = "the lock table could not be used (a thread was interrupted)"

PATTERNS = (
    *_forms(
        "lock_taken",
        "a client took the lock of a queue that nobody held",
        (
            _4_9,
            r"^<operation:tryLock(?:Batch)?>, message queue not locked, I got it\. Group: <consumer_group> "
            "NewClientId: <client_id:client> <MESSAGE_QUEUE>",
        ),
        (
            _5,
            "^RebalanceLockManager#<operation:tryLock(?:Batch)?>: lock a message (?:queue )?which has not been "
            "locked yet, group=<consumer_group>, clientId=<client_id:client>, mq=<MESSAGE_QUEUE>",
        ),
    ),
    *_forms(
        "lock_expired",
        "a client took over a lock that its holder had not renewed in time (60 s by default)",
        (
            _4_9,
            r"^<operation:tryLock(?:Batch)?>, message queue lock expired, I got it\. Group: <consumer_group> "
            "OldClientId: <holder_client_id:client> NewClientId: <client_id:client> <MESSAGE_QUEUE>",
        ),
        (
            _5,
            "^RebalanceLockManager#<operation:tryLock(?:Batch)?>: try to lock a expired message queue, "
            "group=<consumer_group>, mq=<MESSAGE_QUEUE>, old client id=<holder_client_id:client>, new client "
            "id=<client_id:rest>",
        ),
    ),
    *_forms(
        "lock_refused",
        "a client asked for a lock that another client holds: the queue is not consumed until it gets it",
        (
            _4_9,
            r"^<operation:tryLock(?:Batch)?>, message queue locked by other client\. Group: <consumer_group> "
            "OtherClientId: <holder_client_id:client> NewClientId: <client_id:client> <MESSAGE_QUEUE>",
        ),
        (
            _5,
            "^RebalanceLockManager#<operation:tryLock(?:Batch)?>: message queue has been locked by other client, "
            "group=<consumer_group>, mq=<MESSAGE_QUEUE>, locked client id=<holder_client_id:client>, current "
            "client id=<client_id:rest>",
        ),
    ),
    *_forms(
        "lock_released",
        "a client gave its lock back",
        (_4_9, "^unlockBatch, Group: <consumer_group> <MESSAGE_QUEUE> <client_id:rest>"),
        (
            _5,
            "^RebalanceLockManager#unlockBatch: unlock mq, group=<consumer_group>, clientId=<client_id:client>, "
            "mqs=<MESSAGE_QUEUE>",
        ),
    ),
    *_forms(
        "unlock_of_other",
        "a client gave back a lock that another client holds: it had lost it before",
        (
            _4_9,
            "^unlockBatch, but mq locked by other client: <holder_client_id:client>, Group: <consumer_group> "
            "<MESSAGE_QUEUE> <client_id:rest>",
        ),
        (
            _5,
            "^RebalanceLockManager#unlockBatch: mq locked by other client, group=<consumer_group>, locked "
            "clientId=<holder_client_id:client>, current clientId=<client_id:client>, mqs=<MESSAGE_QUEUE>",
        ),
    ),
    *_forms(
        "unlock_of_unlocked",
        "a client gave back a lock that nobody held",
        (
            _4_9,
            "^unlockBatch, but mq not locked, Group: <consumer_group> <MESSAGE_QUEUE> <client_id:rest>",
        ),
        (
            _5,
            "^RebalanceLockManager#unlockBatch: mq not locked, group=<consumer_group>, "
            "clientId=<client_id:client>, mq=<MESSAGE_QUEUE>",
        ),
    ),
    *_forms(
        "unlock_of_unknown_group",
        "a client gave back locks of a group that never locked anything on this broker",
        (
            _4_9,
            "^unlockBatch, group not exist, Group: <consumer_group> <client_id:rest>",
        ),
        (
            _5,
            "^RebalanceLockManager#unlockBatch: group not exist, group=<consumer_group>, "
            "clientId=<client_id:client>, mqs=<message_queues:rest>",
        ),
    ),
    _line(
        "lock_error",
        "^RebalanceLockManager#<operation:tryLock|tryLockBatch|unlockBatch>: unexpected error, "
        "group=<consumer_group>, <detail:rest>",
        meaning=_ERROR,
        source=_5,
    ),
    _line(
        # The text is the same as one of the client's process queue: only the stack trace tells where it comes from.
        "lock_error",
        r"^putMessage exception<END>[^\x00]*RebalanceLockManager\.",
        meaning=_ERROR,
        source=_4_9,
        spans_lines=True,
    ),
)
