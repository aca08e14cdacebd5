"""When to stop a running experiment: the one place that decides it."""

import threading
import time
from dataclasses import dataclass

from app.errors import Cancelled, Draining, EngineDied, EngineStalled, LeaseLost, TimedOut
from app.spec.experiment import Limits
from app.spec.plan import PlannedTrial

# A worker that is asked to end is given 30 s (rollout-lab serve, Docker, systemd): enough is left for the clean-up.
_DRAIN_S = 15.0


@dataclass(frozen=True, slots=True)
class Pulse:
    """A sign of life of an engine."""

    tokens: int  # generated since its start
    dead: str | None = None  # which of its processes is gone


class Watch:
    """Raises what ends an experiment early. The heartbeat sets its flags, the running trial asks it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._deadline = time.monotonic() + limits.timeout_s
        self._tokens = -1
        self._moved = time.monotonic()
        self.current: PlannedTrial | None = None
        self.cancelled = threading.Event()
        self.lost = threading.Event()
        self._drain_by: float | None = None

    def drain(self) -> None:
        """The worker has to go: the trial that runs may end, if it does so soon."""
        self._drain_by = time.monotonic() + _DRAIN_S

    def check(self) -> None:
        """Raise LeaseLost, Cancelled, TimedOut or Draining if it is so."""
        if self.lost.is_set():
            raise LeaseLost("the lease was taken by somebody else")
        if self.cancelled.is_set():
            raise Cancelled("cancelled on request")
        if time.monotonic() > self._deadline:
            raise TimedOut(f"not done within limits.timeout_s ({self._limits.timeout_s:g} s)")
        if self._drain_by is not None and time.monotonic() > self._drain_by:
            raise Draining("the worker is shutting down")

    def check_between_trials(self) -> None:
        """As ``check``; also raise Draining, since nothing would be lost now."""
        self.check()
        if self._drain_by is not None:
            raise Draining("the worker is shutting down")

    def begin_trial(self) -> None:
        """The stall clock starts anew."""
        self._tokens = -1
        self._moved = time.monotonic()

    def check_pulse(self, pulse: Pulse, stalls: bool) -> None:
        """Raise EngineDied, or EngineStalled in a call that ``stalls`` where no token comes.

        A process can hang while its health check still passes.
        """
        if pulse.dead is not None:
            raise EngineDied(pulse.dead)
        if pulse.tokens != self._tokens:
            self._tokens = pulse.tokens
            self._moved = time.monotonic()
        elif stalls and time.monotonic() - self._moved > self._limits.stall_timeout_s:
            raise EngineStalled(f"no new token for limits.stall_timeout_s ({self._limits.stall_timeout_s:g} s)")
