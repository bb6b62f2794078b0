"""Rebalance locks: every line of RebalanceLockManager.

Source: RebalanceLockManager of 4.9.7, 4.9.8, 5.3.3 and 5.5.0; all texts differ between 4.9 and 5.x.
4.x and up to 5.1.0 write them to lock.log; the stock configuration of 5.1.1 and later to filter.log.
A renewal prints nothing. An orderly group locks its `%RETRY%` queues, too.
"""

from __future__ import annotations

from offsetguard.sources.logs.pattern import (
    CLIENT,
    END,
    MESSAGE_QUEUE,
    MESSAGE_QUEUE_FIELDS,
    NAME,
    REST,
    LogKind,
    Pattern,
    text,
)

_LOGS = (LogKind.LOCK,)
_4_9 = "RebalanceLockManager 4.9.7, 4.9.8"
_5 = "RebalanceLockManager 5.3.3, 5.5.0"
_TRY_4 = r"^(tryLock(?:Batch)?), message queue"
_TRY_5 = r"^RebalanceLockManager#(tryLock(?:Batch)?): "

_TAKEN = "a client took the lock of a queue that nobody held"
_EXPIRED = "a client took over a lock that its holder had not renewed in time (60 s by default)"
_REFUSED = "a client asked for a lock that another client holds: the queue is not consumed until it gets it"
_RELEASED = "a client gave its lock back"
_OTHER = "a client gave back a lock that another client holds: it had lost it before"
_NOT_LOCKED = "a client gave back a lock that nobody held"
_NO_GROUP = "a client gave back locks of a group that never locked anything on this broker"
_ERROR = "the lock table could not be used (a thread was interrupted)"

PATTERNS = (
    Pattern(
        kind="lock_taken",
        log_kinds=_LOGS,
        must_contain="message queue not locked, I got it",
        regex=_TRY_4 + f" not locked, I got it\\. Group: {NAME} NewClientId: {CLIENT} {MESSAGE_QUEUE}",
        fields=(*text("operation", "consumer_group", "client_id"), *MESSAGE_QUEUE_FIELDS),
        meaning=_TAKEN,
        source=_4_9,
    ),
    Pattern(
        kind="lock_taken",
        log_kinds=_LOGS,
        must_contain="which has not been locked yet",
        regex=_TRY_5
        + r"lock a message (?:queue )?which has not been locked yet, "
        + f"group={NAME}, clientId={CLIENT}, mq={MESSAGE_QUEUE}",
        fields=(*text("operation", "consumer_group", "client_id"), *MESSAGE_QUEUE_FIELDS),
        meaning=_TAKEN,
        source=_5,
    ),
    Pattern(
        kind="lock_expired",
        log_kinds=_LOGS,
        must_contain="message queue lock expired, I got it",
        regex=_TRY_4
        + f" lock expired, I got it\\. Group: {NAME} OldClientId: {CLIENT} NewClientId: {CLIENT} {MESSAGE_QUEUE}",
        fields=(*text("operation", "consumer_group", "holder_client_id", "client_id"), *MESSAGE_QUEUE_FIELDS),
        meaning=_EXPIRED,
        source=_4_9,
    ),
    Pattern(
        kind="lock_expired",
        log_kinds=_LOGS,
        must_contain="try to lock a expired message queue",
        regex=_TRY_5
        + f"try to lock a expired message queue, group={NAME}, mq={MESSAGE_QUEUE}, "
        + f"old client id={CLIENT}, new client id={REST}",
        fields=(
            *text("operation", "consumer_group"),
            *MESSAGE_QUEUE_FIELDS,
            *text("holder_client_id", "client_id"),
        ),
        meaning=_EXPIRED,
        source=_5,
    ),
    Pattern(
        kind="lock_refused",
        log_kinds=_LOGS,
        must_contain="message queue locked by other client",
        regex=_TRY_4
        + f" locked by other client\\. Group: {NAME} OtherClientId: {CLIENT} NewClientId: {CLIENT} {MESSAGE_QUEUE}",
        fields=(*text("operation", "consumer_group", "holder_client_id", "client_id"), *MESSAGE_QUEUE_FIELDS),
        meaning=_REFUSED,
        source=_4_9,
    ),
    Pattern(
        kind="lock_refused",
        log_kinds=_LOGS,
        must_contain="message queue has been locked by other client",
        regex=_TRY_5
        + f"message queue has been locked by other client, group={NAME}, mq={MESSAGE_QUEUE}, "
        + f"locked client id={CLIENT}, current client id={REST}",
        fields=(
            *text("operation", "consumer_group"),
            *MESSAGE_QUEUE_FIELDS,
            *text("holder_client_id", "client_id"),
        ),
        meaning=_REFUSED,
        source=_5,
    ),
    Pattern(
        kind="lock_released",
        log_kinds=_LOGS,
        must_contain="unlockBatch, Group: ",
        regex=f"^unlockBatch, Group: {NAME} {MESSAGE_QUEUE} {REST}",
        fields=(*text("consumer_group"), *MESSAGE_QUEUE_FIELDS, *text("client_id")),
        meaning=_RELEASED,
        source=_4_9,
    ),
    Pattern(
        kind="lock_released",
        log_kinds=_LOGS,
        must_contain="RebalanceLockManager#unlockBatch: unlock mq",
        regex=f"^RebalanceLockManager#unlockBatch: unlock mq, group={NAME}, clientId={CLIENT}, mqs={MESSAGE_QUEUE}",
        fields=(*text("consumer_group", "client_id"), *MESSAGE_QUEUE_FIELDS),
        meaning=_RELEASED,
        source=_5,
    ),
    Pattern(
        kind="unlock_of_other",
        log_kinds=_LOGS,
        must_contain="unlockBatch, but mq locked by other client",
        regex=f"^unlockBatch, but mq locked by other client: {CLIENT}, Group: {NAME} {MESSAGE_QUEUE} {REST}",
        fields=(*text("holder_client_id", "consumer_group"), *MESSAGE_QUEUE_FIELDS, *text("client_id")),
        meaning=_OTHER,
        source=_4_9,
    ),
    Pattern(
        kind="unlock_of_other",
        log_kinds=_LOGS,
        must_contain="RebalanceLockManager#unlockBatch: mq locked by other client",
        regex=f"^RebalanceLockManager#unlockBatch: mq locked by other client, group={NAME}, "
        + f"locked clientId={CLIENT}, current clientId={CLIENT}, mqs={MESSAGE_QUEUE}",
        fields=(*text("consumer_group", "holder_client_id", "client_id"), *MESSAGE_QUEUE_FIELDS),
        meaning=_OTHER,
        source=_5,
    ),
    Pattern(
        kind="unlock_of_unlocked",
        log_kinds=_LOGS,
        must_contain="unlockBatch, but mq not locked",
        regex=f"^unlockBatch, but mq not locked, Group: {NAME} {MESSAGE_QUEUE} {REST}",
        fields=(*text("consumer_group"), *MESSAGE_QUEUE_FIELDS, *text("client_id")),
        meaning=_NOT_LOCKED,
        source=_4_9,
    ),
    Pattern(
        kind="unlock_of_unlocked",
        log_kinds=_LOGS,
        must_contain="RebalanceLockManager#unlockBatch: mq not locked",
        regex=f"^RebalanceLockManager#unlockBatch: mq not locked, group={NAME}, clientId={CLIENT}, mq={MESSAGE_QUEUE}",
        fields=(*text("consumer_group", "client_id"), *MESSAGE_QUEUE_FIELDS),
        meaning=_NOT_LOCKED,
        source=_5,
    ),
    Pattern(
        kind="unlock_of_unknown_group",
        log_kinds=_LOGS,
        must_contain="unlockBatch, group not exist",
        regex=f"^unlockBatch, group not exist, Group: {NAME} {REST}",
        fields=text("consumer_group", "client_id"),
        meaning=_NO_GROUP,
        source=_4_9,
    ),
    Pattern(
        kind="unlock_of_unknown_group",
        log_kinds=_LOGS,
        must_contain="RebalanceLockManager#unlockBatch: group not exist",
        regex=f"^RebalanceLockManager#unlockBatch: group not exist, group={NAME}, clientId={CLIENT}, mqs={REST}",
        fields=text("consumer_group", "client_id", "message_queues"),
        meaning=_NO_GROUP,
        source=_5,
    ),
    Pattern(
        kind="lock_error",
        log_kinds=_LOGS,
        must_contain="unexpected error, group=",
        regex=f"^RebalanceLockManager#(tryLock|tryLockBatch|unlockBatch): unexpected error, group={NAME}, {REST}",
        fields=text("operation", "consumer_group", "detail"),
        meaning=_ERROR,
        source=_5,
    ),
    Pattern(
        # The text is the same as one of the client's process queue: only the stack trace tells where it comes from.
        kind="lock_error",
        log_kinds=_LOGS,
        must_contain="putMessage exception",
        regex=f"^putMessage exception{END}[^\\x00]*RebalanceLockManager\\.",
        meaning=_ERROR,
        source=_4_9,
        spans_lines=True,
    ),
)
