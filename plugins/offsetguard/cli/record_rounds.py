"""The rounds of `offsetguard record`: normal collection rounds through a recorder, and the logs between them."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from offsetguard.cli.output import replica_labels
from offsetguard.collect.collector import collect_round
from offsetguard.collect.earlier_round import EarlierRound
from offsetguard.collect.snapshot import Snapshot
from offsetguard.config import Config
from offsetguard.model.intervals import Interval
from offsetguard.sources.bundle.layout import Meta
from offsetguard.sources.bundle.log_excerpts import LogExcerpts, find_log_folders, log_folders_of
from offsetguard.sources.bundle.recording import RecordingTransport
from offsetguard.sources.bundle.writer import BundleWriter
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.signing import Credentials


@dataclass(frozen=True, slots=True)
class RecordingPlan:
    """What is recorded, for how long."""

    cluster: str
    config: Config
    credentials: Credentials | None
    logs: tuple[tuple[str | None, Path], ...]
    length: timedelta
    every: timedelta
    max_bytes: int


class Recording:
    """One run of the command."""

    def __init__(self, plan: RecordingPlan, meta: Meta, out: Path, *, quiet: bool) -> None:
        self._plan = plan
        self._meta = meta
        self._out = out
        self._quiet = quiet
        self._stop = asyncio.Event()
        self._seen_count = 0
        self._round_count = 0

    async def run(self) -> bool:
        """Record until the time is over, the size is reached or somebody stops it; whether the cluster was seen."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop.set)
        plan, settings = self._plan, self._plan.config.clusters[self._plan.cluster]
        async with RocketMQClient(
            settings.request_timeout_ms,
            plan.credentials,
            settings.collection.max_in_flight,
            settings.collection.max_requests_per_s,
            settings.tls,
        ) as client:
            if plan.logs:
                labels = await replica_labels(client, settings.name_servers, self._tell)
                folders = find_log_folders(plan.logs, labels)
            else:
                folders = log_folders_of(settings.logs)
            with BundleWriter(self._out, self._meta) as bundle:
                excerpts = LogExcerpts(self._out, folders)
                for one in folders:
                    self._tell(f"logs of {one.folder} go to {one.place}")
                await self._record(client, bundle, excerpts)
        return self._seen_count > 0

    async def _record(self, client: RocketMQClient, bundle: BundleWriter, excerpts: LogExcerpts) -> None:
        settings = self._plan.config.clusters[self._plan.cluster]
        transport = RecordingTransport(client, bundle, settings.name_servers, settings.address_map)
        excerpts.begin()
        try:
            await self._record_rounds(transport, bundle, excerpts)
        finally:
            excerpts.copy()
            excerpts.close()
            for note in excerpts.notes:
                bundle.note(note)
                self._tell(note)
        self._tell(
            f"{self._out}: {self._round_count} rounds, {bundle.exchange_count:,} answers,"
            f" {bundle.byte_count / 1024**2:.1f} MiB, and {sum(excerpts.byte_counts.values()) / 1024**2:.1f} MiB of"
            f" {len(excerpts.byte_counts)} logs"
        )

    async def _record_rounds(self, transport: RecordingTransport, bundle: BundleWriter, excerpts: LogExcerpts) -> None:
        loop = asyncio.get_running_loop()
        begun, earlier = loop.time(), None
        ends_at = begun + self._plan.length.total_seconds()
        while not self._stop.is_set():
            snapshot = await self._record_round(transport, bundle, earlier)
            await asyncio.to_thread(excerpts.copy)
            if snapshot is None:
                self._tell("stopped: the last round is cut short")
                return
            earlier = snapshot
            self._tell_round(snapshot, bundle)
            if bundle.byte_count >= self._plan.max_bytes:
                bundle.note(f"stopped after {self._round_count} rounds: --max-mib is reached")
                self._tell("stopped: --max-mib is reached")
                return
            next_at = begun + self._round_count * self._plan.every.total_seconds()
            if next_at >= ends_at:
                return
            await self._wait(next_at - loop.time())

    async def _record_round(
        self, transport: RecordingTransport, bundle: BundleWriter, before: Snapshot | None
    ) -> Snapshot | None:
        """Run one normal round; None = it was stopped."""
        now = datetime.now(UTC)
        self._round_count += 1
        bundle.begin_round(int(now.timestamp() * 1000))
        collecting = asyncio.ensure_future(
            collect_round(
                self._plan.cluster,
                self._plan.config,
                Interval.containing(now),
                started_at=now,
                earlier=EarlierRound(before.manifest, before.tables) if before else None,
                transport=transport,
            )
        )
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({collecting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not collecting.done():
            collecting.cancel()
            await asyncio.wait({collecting})
            return None
        snapshot = collecting.result()
        bundle.end_round()
        return snapshot

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._stop.wait()
        except TimeoutError:
            pass

    def _tell_round(self, snapshot: Snapshot, bundle: BundleWriter) -> None:
        manifest = snapshot.manifest
        self._seen_count += not manifest.cluster_unseen
        if manifest.cluster_unseen and manifest.gaps:
            self._tell(manifest.gaps[-1].reason)
        self._tell(
            f"round {self._round_count}: {manifest.requests.answered:,} of {manifest.requests.asked:,} requests"
            f" answered, {manifest.gap_count} gaps, {bundle.byte_count / 1024**2:.1f} MiB"
        )

    def _tell(self, text: str) -> None:
        if not self._quiet:
            click.echo(text, err=True)
