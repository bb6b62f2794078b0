"""What is read whole: the configuration, landed rounds, and rounds of recorded bodies, logs and state files.

The targets of `targets.py` read a body, a line or a frame; these go through all that is made of it. A hostile body,
log or state file goes through a collector's round to the tables that would land; a landed file through everybody who
reads it: the publisher's check, the judge without Spark, and the next round, which compares.
"""

import asyncio
import io
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from offsetguard.collect.collector import collect_round
from offsetguard.collect.earlier_round import EarlierRound
from offsetguard.collect.landing import land, read_manifest, read_table, snapshot_folder
from offsetguard.collect.manifest import Manifest
from offsetguard.config import Config
from offsetguard.config.checks import check_file
from offsetguard.config.configuration import asking_everything
from offsetguard.config.file import read_config_file
from offsetguard.config.workspace import MANIFEST_FILE_NAME
from offsetguard.judge.registry import RULES
from offsetguard.lake.reading import table_schema
from offsetguard.model.errors import BundleError, ConfigError, SnapshotError
from offsetguard.model.intervals import Interval
from offsetguard.sources.bundle.log_replay import log_source
from offsetguard.sources.bundle.reader import Bundle, moments, open_bundle
from offsetguard.sources.bundle.replay import BundleTransport
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.sources.state_files.transport import rounds_of_state_folder
from offsetguard.tables import (
    BROKER_SNAPSHOTS,
    BROKER_STATS,
    GROUP_SNAPSHOTS,
    LOG_EVENTS,
    QUEUE_SNAPSHOTS,
    TOPIC_QUEUE_SNAPSHOTS,
    Table,
)
from offsetguard_peers.configs import one_team
from offsetguard_peers.fuzz.target import Target

PROJECT = Path(__file__).parents[4]
BUNDLE = PROJECT / "tests" / "data" / "bundles" / "4.9.8-healthy"
STATE_FILES = PROJECT / "tests" / "data" / "state_files" / "4.9.8" / "broker-a-0"
NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
CLUSTER = "c"
CONFIG: Config = one_team({CLUSTER: {"name_servers": ["127.0.0.1:9876"]}})
ASKED = frozenset(RequestCode)
LANDED = (QUEUE_SNAPSHOTS, GROUP_SNAPSHOTS, TOPIC_QUEUE_SNAPSHOTS, BROKER_SNAPSHOTS, BROKER_STATS, LOG_EVENTS)
CONFIG_BYTES = 8 * 1024  # PyYAML takes a second for 30 KiB, and who writes it is trusted
SMALL_CONFIG = b"""\
clusters: {main: {name_servers: ['10.0.0.1:9876'], request_timeout_ms: 3_000}}
teams: &teams {ops: {mail: [ops@example.org], slack: ['#ops']}}
default_team: ops
groups:
  - match: orders-*
    team: ops
    orderly: true
    max_lag_ms: 60000
routes:
  - rule: accumulation
    severity: !!str warning
    mail: [late@example.org]
    maintenance: [{comment: upgrade, from: "2026-11-21 10:00", to: "2026-11-21 12:00"}]
    quiet_hours: [{days: [sat, sun], from: "22:00", to: "06:00"}]
delivery: {group_wait_ms: !!int 30000, repeat_interval_ms: 3600000}
"""


def document_targets(folder: Path) -> list[Target]:
    """Return the targets; they write below `folder`."""
    configs = [SMALL_CONFIG, (PROJECT / "config" / "offsetguard.yml").read_bytes()[:3_000], b"teams: {ops: {}}\n"]
    landed = _Landed(folder / "landed")
    return [
        Target("configuration", partial(_configuration, folder), configs, (ConfigError,), 0.1),
        Target("manifest", landed.read_manifest, [landed.manifest.to_json().encode()], (SnapshotError,), 4),
        *(
            Target(f"landed {table.name}", partial(landed.read, table), landed.files(table), (SnapshotError,), 0.15)
            for table in LANDED
        ),
        *_round_targets(folder / "bundle"),
        *_state_targets(folder / "state" / "broker-a-0"),
        Target("index of a bundle", partial(_index, folder / "index"), [_index_text()], (BundleError,), 0.05),
    ]


def _configuration(folder: Path, data: bytes) -> object:
    file = folder / "offsetguard.yml"
    file.write_bytes(data[:CONFIG_BYTES])
    return check_file(read_config_file(file), RULES, NOW)


class _Landed:
    """A landed round of a real bundle, one of whose files is replaced."""

    def __init__(self, folder: Path) -> None:
        bundle = open_bundle(BUNDLE)
        logs = [log_source("broker", place, "*.log", "+08:00", ("broker-a", 0)) for place in BUNDLE.glob("logs/*")]
        self.manifest, self._tables = _round(bundle, logs)
        land(folder, self.manifest, self._tables)
        self._folder = snapshot_folder(folder, CLUSTER, Interval(self.manifest.interval_start))

    def files(self, table: Table) -> list[bytes]:
        """Return the file as it lands, without compression (so that what is damaged is read), and of other schemas."""
        rows = self._tables[table.name].slice(0, 20)
        first, second, *others = rows.schema.names
        texts = [name for name in rows.schema.names if pa.types.is_string(rows.schema.field(name).type)]
        no_text = pa.array([b"\xff\xfe\xc0"] * len(rows)).cast(pa.string(), safe=False) if len(rows) else None
        damaged = [
            rows.rename_columns([second, first, *others]),  # of other types
            rows.rename_columns([second, second, *others]),  # one twice
            rows.drop_columns([first]),
            rows.select([]),
            rows.append_column("more", pa.array([{"a": [1]}] * len(rows), pa.struct({"a": pa.list_(pa.int64())}))),
            rows.slice(0, 0),
            pa.table({name: pa.nulls(len(rows), rows.schema.field(name).type) for name in rows.schema.names}),
            *(rows.set_column(rows.schema.get_field_index(name), name, no_text) for name in texts if no_text),
        ]
        whole = (self._folder / f"{table.name}.parquet").read_bytes()
        return [whole, *[_parquet(rows)] * 12, *map(_parquet, damaged)]

    def read(self, table: Table, data: bytes) -> None:
        """Read the round as everybody who reads landed rounds."""
        from offsetguard_spark.landed import check_landed  # noqa: PLC0415 - imports Spark's client

        file = self._folder / f"{table.name}.parquet"
        whole = file.read_bytes()
        file.write_bytes(data)
        try:
            earlier = EarlierRound(self.manifest, folder=self._folder)
            earlier.figures(), earlier.replicas()
            read_table(self._folder, table).cast(table_schema(table)).to_pylist()
            check_landed(self._folder, self.manifest)
        finally:
            file.write_bytes(whole)

    def read_manifest(self, data: bytes) -> Manifest:
        """Read it from a folder of its own."""
        folder = self._folder.with_name("manifest")
        folder.mkdir(exist_ok=True)
        (folder / MANIFEST_FILE_NAME).write_bytes(data)
        return read_manifest(folder)


def _parquet(rows: pa.Table) -> bytes:
    written = io.BytesIO()
    pq.write_table(rows, written, compression="none", store_schema=False, use_dictionary=False)
    return written.getvalue()


def _round(bundle: Bundle, log_sources: Sequence[object] = ()) -> tuple[Manifest, dict[str, pa.Table]]:
    moment = moments(bundle)[-1]
    snapshot = asyncio.run(
        collect_round(
            CLUSTER,
            asking_everything(CONFIG, CLUSTER),
            Interval.containing(moment.at),
            started_at=moment.at,
            transport=BundleTransport(bundle, moment),
            log_sources=log_sources,  # type: ignore[arg-type]
        )
    )
    return snapshot.manifest, dict(snapshot.tables)


def _round_targets(folder: Path) -> list[Target]:
    """Return a round for each kind of body, which is replaced wherever the bundle has one, and for each log."""
    shutil.copytree(BUNDLE, folder, ignore=shutil.ignore_patterns("logs", "clients"))
    bundle = open_bundle(folder)
    files: dict[int, set[str]] = {}
    for one in bundle.exchanges:
        if one.file is not None and one.code in ASKED and (folder / "bodies" / one.file).stat().st_size:
            files.setdefault(one.code, set()).add(one.file)
    bodies = [
        Target(
            f"round with {code}",
            partial(_round_with, bundle, sorted(of_code)),
            [(folder / "bodies" / name).read_bytes() for name in sorted(of_code)],
            refusals=(),
            weight=0.03,
        )
        for code, of_code in sorted(files.items())
    ]
    logs = [
        Target(
            f"round with a log of a {whose}",
            partial(_round_with_log, bundle, folder / whose, broker),
            [b"".join(file.read_bytes().splitlines(keepends=True)[:40]) for file in sorted(BUNDLE.glob(where))],
            refusals=(),
            weight=0.06,
        )
        for whose, where, broker in (
            ("broker", "logs/*/*.log", ("broker-a", 0)),
            ("client", "clients/*/*.log", None),
        )
    ]
    return [*bodies, *logs]


def _round_with(bundle: Bundle, names: Sequence[str], data: bytes) -> object:
    files = [bundle.folder / "bodies" / name for name in names]
    whole = [file.read_bytes() for file in files]
    try:
        for file in files:
            file.write_bytes(data)
        return _round(bundle)
    finally:
        for file, before in zip(files, whole, strict=True):
            file.write_bytes(before)


def _round_with_log(bundle: Bundle, folder: Path, broker: tuple[str, int] | None, data: bytes) -> object:
    folder.mkdir(exist_ok=True)
    (folder / "a.log").write_bytes(data)
    return _round(bundle, [log_source("a", folder, "*.log", "+08:00", broker)])


def _index_text() -> bytes:
    return b"".join((BUNDLE / "index.jsonl").read_bytes().splitlines(keepends=True)[:40])


def _index(folder: Path, data: bytes) -> object:
    """Read a bundle without its bodies, and run its last round: what is not there is a gap."""
    folder.mkdir(exist_ok=True)
    (folder / "index.jsonl").write_bytes(data)
    bundle = open_bundle(folder)
    return _round(bundle) if moments(bundle) else None


def _state_targets(folder: Path) -> list[Target]:
    """Return a round of a broker's state files for each of them."""
    shutil.copytree(STATE_FILES, folder / "config")
    files = sorted(file for file in (folder / "config").iterdir() if file.suffix == ".json")
    return [
        Target(
            f"round with {file.name}", partial(_state_round, folder, file), [file.read_bytes()], (BundleError,), 0.03
        )
        for file in files
    ]


def _state_round(folder: Path, file: Path, data: bytes) -> None:
    whole = file.read_bytes()
    file.write_bytes(data)
    try:
        for one in rounds_of_state_folder(folder.parent, CLUSTER, NOW):
            asyncio.run(
                collect_round(
                    CLUSTER,
                    CONFIG,
                    one.interval,
                    started_at=one.started_at + timedelta(seconds=1),
                    transport=one.transport,
                    origin=one.origin,
                    damages=one.damages,
                )
            )
    finally:
        file.write_bytes(whole)
