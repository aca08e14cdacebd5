"""Experiments as they change: however many listen, the database is asked once per experiment and interval."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
import structlog
from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from app.errors import DatabaseUnavailable, NotFound, UnreadableSpec
from app.store import experiments
from app.store.database import Database
from app.store.experiments import Event, ExperimentRow
from app.store.ids import ExperimentId

_log = structlog.get_logger(__name__)
_QUERIES_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An experiment and its whole history at one moment."""

    row: ExperimentRow
    events: tuple[Event, ...]


@dataclass(slots=True)
class _Channel:
    """What the listeners of one experiment share."""

    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    snapshot: Snapshot | None = None
    gone: bool = False
    listeners: int = 0
    poller: asyncio.Task[None] | None = None

    async def newer_than(self, seen: Snapshot | None) -> Snapshot | None:
        """The next snapshot that is another one; None if none will come."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.gone or self.snapshot is not seen)
        return None if self.gone else self.snapshot

    async def publish(self, snapshot: Snapshot | None) -> None:
        """Tell the listeners, unless it is what they know; None is the end."""
        known = self.snapshot
        if snapshot is not None and known is not None and known.row.etag == snapshot.row.etag:
            return
        self.snapshot, self.gone = snapshot, snapshot is None
        async with self.changed:
            self.changed.notify_all()


class Feed:
    """Live views of experiments, off the event loop and shared."""

    def __init__(self, database: Database, interval_s: float = 0.5) -> None:
        self._database = database
        self._interval_s = interval_s
        self._channels: dict[ExperimentId, _Channel] = {}
        self._limiter: CapacityLimiter | None = None

    async def snapshots(self, experiment_id: ExperimentId) -> AsyncGenerator[Snapshot]:
        """The experiment now and after every change, until it is at its end; changes in quick succession are one."""
        channel = self._channels.setdefault(experiment_id, _Channel())
        channel.listeners += 1
        if channel.poller is None:
            channel.poller = asyncio.create_task(self._poll(experiment_id, channel))
        seen: Snapshot | None = None
        try:
            while (seen := await channel.newer_than(seen)) is not None:
                yield seen
                if seen.row.item.status.terminal:
                    return
        finally:
            channel.listeners -= 1
            if not channel.listeners:
                del self._channels[experiment_id]
                channel.poller.cancel()

    async def end(self, experiment_id: ExperimentId) -> None:
        """Send the listeners of an experiment away."""
        channel = self._channels.get(experiment_id)
        if channel is not None:
            await channel.publish(None)

    async def snapshot(self, experiment_id: ExperimentId) -> Snapshot:
        """The experiment now; NotFound if there is none."""
        self._limiter = self._limiter or CapacityLimiter(_QUERIES_AT_ONCE)
        return await run_sync(self._read, experiment_id, limiter=self._limiter)

    def _read(self, experiment_id: ExperimentId) -> Snapshot:
        # The row first: whatever it tells of has its event by now.
        row = experiments.get(self._database, experiment_id)
        return Snapshot(row, experiments.list_events_after(self._database, experiment_id))

    async def _poll(self, experiment_id: ExperimentId, channel: _Channel) -> None:
        try:
            while channel.snapshot is None or not channel.snapshot.row.item.status.terminal:
                with suppress(DatabaseUnavailable):  # it may come back; the listeners stay
                    await channel.publish(await self.snapshot(experiment_id))
                await anyio.sleep(self._interval_s)
        except (NotFound, UnreadableSpec):
            await channel.publish(None)
        except Exception:  # noqa: BLE001 - nobody may wait for a poller that is dead
            _log.exception("event stream ended", experiment_id=experiment_id)
            await channel.publish(None)
