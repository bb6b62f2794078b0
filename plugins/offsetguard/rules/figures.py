"""What figures are called and in which unit they are shown; every figure of a table or a queue has a line here."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from offsetguard.rules.text import format_bytes, format_duration, format_messages, format_moment

if TYPE_CHECKING:
    from offsetguard.rules.rule import Figure

LABELS = {
    "advanced_at": "last committed",
    "available": "available",
    "behind_ms": "written in",
    "beyond": "beyond the end",
    "blocked_ms": "blocked for",
    "blocked_offset": "blocking offset",
    "broker_expressions": "brokers filter by",
    "brokers": "brokers",
    "cached_message_count": "cached messages",
    "cached_min_offset": "oldest cached",
    "changed_at": "members changed",
    "client_id": "client",
    "clients": "clients",
    "consume_rt_ms": "time per message",
    "consume_tps": "consumed per second",
    "consumer_offset": "consumer offset",
    "corrected_offset": "sent to offset",
    "dead_letter_growth": "new dead letters",
    "dead_letter_message_count": "dead letters kept",
    "disk_percent": "disk used, percent",
    "effective_lag": "lag",
    "first_at": "first line",
    "first_moved_at": "first moved",
    "first_refused_at": "first refused",
    "forced_percent": "files go by force above, percent",
    "full_high_ms": "reached in, at the latest",
    "full_low_ms": "reached in, at the earliest",
    "full_queue_count": "queues with full caches",
    "gap_count": "unanswered requests",
    "get_tps": "read per second",
    "group_count": "consumer groups unknown",
    "groups": "unknown groups",
    "hit_percent": "matches, percent",
    "holder_client_id": "held by",
    "hour_start_at": "hour from",
    "hour_tps": "written per second",
    "idle_client_count": "clients without a queue",
    "idle_thread_count": "threads that cannot work",
    "in_process": "in process",
    "inflight": "inflight",
    "kept": "messages kept",
    "lag_ms": "oldest unconsumed",
    "last_at": "last line",
    "last_moved_at": "last moved",
    "last_timestamp": "last consumed, stored at",
    "last_update_at": "last message stored",
    "lasted_ms": "lasts for",
    "least_lock_max_live_time_ms": "lock expiry, at least",
    "line_count": "log lines",
    "lock_interval_ms": "lock interval",
    "lock_max_live_time_ms": "lock expiry",
    "losing_clients": "losing clients",
    "loss_high_ms": "lost in, at the latest",
    "loss_low_ms": "lost in, at the earliest",
    "lost": "lost messages",
    "lost_queue_count": "queues that lost",
    "master_get_tps": "read from masters per second",
    "matching": "real messages, about",
    "matching_high": "real messages, at most",
    "matching_low": "real messages, at least",
    "max_lag_messages": "allowed lag",
    "max_lag_ms": "allowed age",
    "max_offset": "max offset",
    "max_reconsume_times": "retry limit",
    "member_expressions": "clients subscribe to",
    "min_offset": "min offset",
    "missing": "lost and skipped",
    "missing_members": "missing (client, broker)",
    "move_count": "times",
    "never_committed_queue_count": "queues never committed",
    "newest_client_start_at": "newest client started",
    "not_in_members_count": "lines 'not in cidAll'",
    "on_brokers": "brokers",
    "online_client_count": "clients online",
    "page_cache_lock_time_ms": "write holds the page cache for",
    "passed": "messages passed",
    "period_ms": "every",
    "pop_available": "waiting",
    "pop_inflight": "in process",
    "produce_tps": "written/s",
    "pull_offset": "pull offset",
    "pull_queue_head_wait_ms": "first pull request waits",
    "queue_count": "queues",
    "read_queue_count": "read queues",
    "reasons": "reasons",
    "recreated_from": "end before",
    "refusal_count": "refusals",
    "refused_count": "lines of refused pulls",
    "renewal_gap_ms": "not renewed for",
    "repeated": "consumed again",
    "requested_offset": "asked for offset",
    "retries": "retry limit",
    "retry_growth": "sent back",
    "retry_max_times": "retryMaxTimes",
    "retry_message_count": "kept in retry topics",
    "retry_tps": "sent back per second",
    "risk_queue_count": "queues at risk",
    "sane_retries": "sane retry limit",
    "send_queue_head_wait_ms": "first send request waits",
    "silence_ms": "nothing committed for",
    "silent": "silent name servers",
    "since": "since",
    "skew_ms": "clock wrong by",
    "skipped": "skipped",
    "skipped_at_most": "skipped, at most",
    "slave_behind_bytes": "slave behind by bytes",
    "slave_get_tps": "read from slaves per second",
    "slave_read_since": "reads there since",
    "slaves": "slaves",
    "stood_still_ms": "stood still for",
    "stopped_queue_count": "queues that stopped",
    "target_at": "reset to",
    "thread_count": "threads",
    "unfinished_ms": "nothing finished for",
    "unreadable_message_count": "messages that nobody can read",
    "unreadable_queue_count": "queues that nobody reads",
    "unseen_since": "unseen since",
    "unsubscribed_clients": "clients without the topic",
    "usual_spread_tps": "give or take",
    "usual_tps": "usual per second",
    "versions": "versions",
    "violated_invariants": "violates",
    "waiter_client_id": "waiting client",
    "week_count": "earlier weeks",
    "worst_broker": "worst broker",
    "worst_queue": "queue",
    "write_queue_count": "write queues",
}

SILENT_AT_ZERO = frozenset(
    {"beyond", "lost", "repeated"}
)  # "lost messages 0" in a message about something else is noise


def format_figure(name: str, figure: Figure) -> str:
    """Return a figure as people read it; its name's suffix tells the unit, None reads "unknown"."""
    if figure is None:
        return "unknown"
    if isinstance(figure, bool):
        return "yes" if figure else "no"
    if isinstance(figure, str | datetime):
        return figure if isinstance(figure, str) else format_moment(figure)
    if name.endswith("_ms"):
        return format_duration(figure)
    if name.endswith("_bytes") and isinstance(figure, int):
        return format_bytes(figure)
    return format_messages(figure) if isinstance(figure, int) else f"{figure:g}"
