"""Landed files of earlier releases, read as if this one had written them: what they lack is NULL.

A landed snapshot outlives the release that wrote it: the first round after an upgrade goes on from the last one before,
and an old interval can be published again. Any column that the first release with the table did not land may be missing
in a file; one that it did land may not: that file is damaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from offsetguard.tables import Table

_FIRST_LANDED = {  # by release 0.1, or by 0.2 where that brought the table
    name: frozenset(f"cluster interval_start {columns}".split())
    for name, columns in {
        "queue_snapshots": "consumer_group topic broker_name queue_id min_offset max_offset consumer_offset pull_offset"
        " last_timestamp oldest_unconsumed_at consumer_offset_read_at pull_offset_read_at max_offset_read_at origin",
        "topic_queue_snapshots": "topic broker_name queue_id min_offset max_offset last_update_at read_at",
        "topic_settings": "broker_name topic topic_kind read_queue_nums write_queue_nums perm orderly",
        "group_snapshots": "consumer_group system_group retry_max_times consume_enabled online_client_count"
        " message_model consume_type declared_orderly lock_interval_ms lock_max_live_time_ms",
        "client_snapshots": "consumer_group client_id broker_name client_address language version subscriptions",
        "broker_snapshots": "broker_name broker_id address answered failure version boot_at commit_log_min_offset"
        " commit_log_max_offset commit_log_disk_ratio role slave_read_enable file_reserved_time_hours delete_when"
        " disk_max_used_space_ratio read_at",
        "offset_moves": "source position moved_at consumer_group client_id topic broker_name queue_id"
        " requested_offset corrected_offset origin",
        "undecodable_records": "source position reason body_base64",
        "client_queue_snapshots": "consumer_group client_id topic broker_name queue_id commit_offset"
        " cached_message_count cached_message_mib cached_min_offset cached_max_offset transaction_message_count dropped"
        " locked last_lock_at last_pull_at last_consume_at pop_wait_ack_count last_pop_at read_at",
        "broker_stats": "broker_name broker_id stats_name stats_key topic consumer_group queue_id counted tps"
        " minute_sum average hour_sum day_sum read_at",
        "log_events": "source file position kind at broker_name broker_id consumer_group topic queue_id client_id"
        " fields_json",
    }.items()
}

# What is known of the columns that 0.1 did not land and that must have a value.
_KNOWN_OF_0_1 = {
    ("client_snapshots", "broker_id"): 0,  # only masters were asked for connections
    ("group_snapshots", "in_detail"): False,
}


def as_this_release(table: Table, landed: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with the table's columns: renamed ones under their new name, later ones filled.

    `schema`: the table's. Columns that a file of the first release should have stay missing, for the caller to complain
    about.
    """
    if schema.names == landed.schema.names:
        return landed
    new_names = {column.formerly: column.name for column in table.columns if column.formerly}
    landed = landed.rename_columns([new_names.get(name, name) for name in landed.schema.names])
    old = _FIRST_LANDED.get(table.name, frozenset(schema.names))
    for name in schema.names:
        if name not in landed.schema.names and name not in old:
            known = pa.scalar(_KNOWN_OF_0_1.get((table.name, name)), schema.field(name).type)
            landed = landed.append_column(schema.field(name), pa.repeat(known, landed.num_rows))
    return landed
