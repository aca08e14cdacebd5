"""vLLM's asynchronous `AsyncLLM`."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractContextManager, asynccontextmanager
from time import monotonic
from typing import Any, TypeVar

from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError

from app.errors import EngineDied
from app.measure.records import HarnessUse, StartedArm
from app.spec.experiment import AsyncLlmDriver, DriverSettings
from app.spec.resolution import ResolvedArm
from workers.drivers import exchange
from workers.drivers.base import Batch, Rollout
from workers.drivers.exchange import take
from workers.drivers.tap import Tap, make_tap
from workers.engine_config import build_engine_arguments, describe_arm

T = TypeVar("T")

_LAG_PERIOD_S = 0.05


class AsyncLlmEngine:
    """One `AsyncLLM` on an event loop of its own; a rollout is one task per request."""

    def __init__(self, settings: ResolvedArm, sleep_mode: bool) -> None:
        self._settings = settings
        self._sleep_mode = sleep_mode
        self._tap: Tap | None = None
        self._running: asyncio.Task[None] | None = None
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="async-llm", daemon=True).start()

    def start(self) -> StartedArm:
        """Start the engine and report what it resolved to."""
        return self._await(self._start())

    async def _start(self) -> StartedArm:
        def tap(vllm_config: object, engine_index: int) -> Tap:
            self._tap = make_tap(vllm_config, engine_index)
            return self._tap

        began = monotonic()
        arguments = AsyncEngineArgs(**build_engine_arguments(self._settings, self._sleep_mode))
        self._engine = AsyncLLM.from_engine_args(arguments, stat_loggers=[tap])
        start_s = monotonic() - began
        return describe_arm(self._settings, self._engine.vllm_config, start_s=start_s, can_sleep=self._sleep_mode)

    def encode(self, texts: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """Token ids of each text."""
        tokenizer = self._engine.get_tokenizer()
        return tuple(tuple(tokenizer.encode(text)) for text in texts)

    def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix; False if the engine refuses."""
        return bool(self._await(self._engine.reset_prefix_cache()))

    def rollout(self, batch: Batch, settings: DriverSettings, meter: AbstractContextManager[object]) -> Rollout:
        """Start one task per request and wait for all of them."""
        assert isinstance(settings, AsyncLlmDriver)  # noqa: S101 - arms share an engine only within one api
        assert self._tap is not None  # noqa: S101 - set by start
        trial = _Trial(self._engine, batch)
        self._tap.reset()
        with exchange.explain_refusals():
            calls = exchange.make_calls(batch, settings, exchange.OUTPUT_KINDS[settings.output_kind])
            with exchange.keep_child_states(self._engine.output_processor, calls), meter:
                complete = self._await(self._run(trial, calls))
        return Rollout(
            records=exchange.make_records(calls, trial.began),
            timeline=self._tap.timeline(trial.began),
            harness=HarnessUse(
                cpu_s=trial.own_s + self._tap.cpu_s,
                event_loop_lag_ms=1000.0 * trial.lag_s,
                outputs=trial.outputs,
            ),
            complete=complete,
        )

    async def _run(self, trial: "_Trial", calls: list[exchange.Call]) -> bool:
        """Whether the trial came to its end."""
        self._running = self._loop.create_task(trial.run(calls))
        try:
            await self._running
        except asyncio.CancelledError:
            return False
        except EngineDeadError as error:
            raise EngineDied(f"the engine core died: {error}") from None
        finally:
            self._running = None
        return True

    def progress(self) -> int:
        """Tokens generated since the engine started."""
        return self._tap.tokens if self._tap else 0

    def abort(self) -> None:
        """Cancel the tasks of a running rollout; vLLM aborts their requests."""
        task = self._running
        if task is not None:
            self._loop.call_soon_threadsafe(task.cancel)

    def sleep(self) -> None:
        """Move the weights to host memory and drop the KV cache."""
        self._await(self._engine.sleep(level=1))

    def wake(self) -> None:
        """Undo ``sleep``."""
        self._await(self._engine.wake_up())

    def stop(self) -> None:
        """End the engine core."""
        self._engine.shutdown()

    def _await(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class _Slots:
    """So many requests in flight at most. A request that needs a slot should start in the moment the slot is free."""

    def __init__(self, limit: int) -> None:
        self._semaphore = asyncio.Semaphore(limit)
        self._limit = limit
        self._freed: deque[float] = deque()

    def open(self, now: float) -> None:
        """All slots are free from now on."""
        self._freed.extend([now] * self._limit)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[float]:
        """Hold a slot; since when it was free."""
        async with self._semaphore:
            try:
                yield self._freed.popleft()
            finally:
                self._freed.append(monotonic())


class _Trial:
    """The timed part: what runs here is on the hot path."""

    def __init__(self, engine: AsyncLLM, batch: Batch) -> None:
        self._engine = engine
        self._slots = _Slots(batch.concurrency) if batch.concurrency else None
        self._call_size = batch.call_size
        self.began = 0.0
        self.own_s = 0.0
        self.lag_s = 0.0
        self.outputs = 0

    async def run(self, calls: list[exchange.Call]) -> None:
        """One task per call, of which those that come together are waited for; the first failure cancels the rest."""
        self.began = monotonic()
        if self._slots is not None:
            self._slots.open(self.began)
        lag = asyncio.create_task(self._watch_lag())
        try:
            for number, together in enumerate(exchange.split_calls(calls, self._call_size)):
                if number:  # what comes first should start when the trial begins
                    exchange.arrive(together, monotonic())
                async with asyncio.TaskGroup() as group:
                    for call in together:
                        group.create_task(self._call(call))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            lag.cancel()

    async def _call(self, call: exchange.Call) -> None:
        if call.arrival_s:
            await asyncio.sleep(self.began + call.arrival_s - monotonic())
        if self._slots is None:
            await self._generate(call)
            return
        async with self._slots.hold() as freed:
            if call.arrival_s is None:
                call.arrived = freed
            await self._generate(call)

    async def _generate(self, call: exchange.Call) -> None:
        own_s, outputs = 0.0, 0
        call.sent = monotonic()
        try:
            async for output in self._engine.generate(call.prompt, call.params, call.request_id):
                now = monotonic()
                take(call, output, now)
                outputs += 1
                # Nothing in between waits, so this is our CPU time, at a tenth of what reading a thread's clock costs.
                own_s += monotonic() - now
        finally:
            self.own_s += own_s
            self.outputs += outputs

    async def _watch_lag(self) -> None:
        while True:
            due = monotonic() + _LAG_PERIOD_S
            await asyncio.sleep(_LAG_PERIOD_S)
            self.lag_s = max(self.lag_s, monotonic() - due)
