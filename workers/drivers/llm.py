"""vLLM's synchronous `LLM`."""

import os
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from vllm import LLM
from vllm.sampling_params import RequestOutputKind
from vllm.v1.metrics.loggers import PerEngineStatLoggerAdapter

from app.measure.records import HarnessUse, StartedArm
from app.spec.experiment import DriverSettings, EngineProcess, LlmDriver
from app.spec.resolution import ResolvedArm
from workers.drivers import exchange
from workers.drivers.base import Batch, Rollout
from workers.drivers.tap import Tap, make_tap
from workers.engine_config import build_engine_arguments, describe_arm


class LlmEngine:
    """One `LLM`; a rollout is the add-and-step loop of `LLM.generate`, once per call, with a stop flag."""

    def __init__(self, settings: ResolvedArm, sleep_mode: bool) -> None:
        self._settings = settings
        self._sleep_mode = sleep_mode
        self._stop = False

    def start(self) -> StartedArm:
        """Start the engine and report what it resolved to."""
        driver = self._settings.driver
        if isinstance(driver, LlmDriver) and driver.engine_process is EngineProcess.IN_PROCESS:
            os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        began = time.monotonic()
        self._llm = LLM(**build_engine_arguments(self._settings, self._sleep_mode))
        start_s = time.monotonic() - began
        self._engine = self._llm.llm_engine
        manager = self._engine.logger_manager
        adapter = PerEngineStatLoggerAdapter(
            vllm_config=self._engine.vllm_config,
            engine_indexes=manager.engine_indexes,
            per_engine_stat_logger_factory=make_tap,
        )
        manager.stat_loggers.append(adapter)
        self._tap: Tap = adapter.per_engine_stat_loggers[manager.engine_indexes[0]]
        return describe_arm(self._settings, self._engine.vllm_config, start_s=start_s, can_sleep=self._sleep_mode)

    def encode(self, texts: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
        """Token ids of each text."""
        tokenizer = self._llm.get_tokenizer()
        return tuple(tuple(tokenizer.encode(text)) for text in texts)

    def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix; False if the engine refuses."""
        return bool(self._llm.reset_prefix_cache())

    def rollout(self, batch: Batch, settings: DriverSettings, meter: AbstractContextManager[object]) -> Rollout:
        """Hand the batch over, call by call, and step the engine until each is done."""
        assert isinstance(settings, LlmDriver)  # noqa: S101 - arms share an engine only within one api
        self._stop = False
        self._tap.reset()
        with exchange.explain_refusals():
            calls = exchange.make_calls(batch, settings, RequestOutputKind.FINAL_ONLY)
            with exchange.keep_child_states(self._engine.output_processor, calls), meter:
                run = self._run(exchange.split_calls(calls, batch.call_size))
        by_id = {call.request_id: call for call in calls}
        # The caller of LLM.generate has nothing until it returns: every sample is delivered then.
        for called in run.calls:
            for output in called.finished:
                exchange.take(by_id[output.request_id], output, called.returned)
        outputs = sum(len(called.finished) for called in run.calls)
        complete = outputs == len(calls)
        if not complete:
            self._engine.abort_request(list(self._engine.output_processor.request_states), internal=True)
        return Rollout(
            records=exchange.make_records(calls, run.began),
            timeline=self._tap.timeline(run.began),
            harness=HarnessUse(cpu_s=run.cpu_s, event_loop_lag_ms=None, outputs=outputs),
            complete=complete,
        )

    def _run(self, groups: list[list[exchange.Call]]) -> "_Run":
        """The timed part: every call of `LLM.generate`, with all that is handed to it."""
        cpu_began = time.thread_time()
        run = _Run(began=time.monotonic())
        for group in groups:
            if run.calls:  # what the first call asks for should start when the trial begins
                exchange.arrive(group, run.calls[-1].returned)
            run.calls.append(self._generate(group))
            if self._stop:
                break
        run.cpu_s = time.thread_time() - cpu_began - sum(one.vllm_cpu_s for one in run.calls) + self._tap.cpu_s
        return run

    def _generate(self, calls: list[exchange.Call]) -> "_Returned":
        """Step by step; ours is what is left of the thread's CPU time without vLLM's calls."""
        engine = self._engine
        finished = []
        cpu_began = time.thread_time()
        for call in calls:
            call.sent = time.monotonic()
            engine.add_request(call.request_id, call.prompt, call.params)
        vllm_cpu_s = time.thread_time() - cpu_began
        while engine.has_unfinished_requests() and not self._stop:
            before = time.thread_time()
            outputs = engine.step()
            vllm_cpu_s += time.thread_time() - before
            finished += [output for output in outputs if output.finished]
        return _Returned(time.monotonic(), vllm_cpu_s, finished)

    def progress(self) -> int:
        """Tokens generated since the engine started."""
        return self._tap.tokens if hasattr(self, "_tap") else 0

    def abort(self) -> None:
        """Leave the step loop after the step that runs."""
        self._stop = True

    def sleep(self) -> None:
        """Move the weights to host memory and drop the KV cache."""
        self._llm.sleep(level=1)

    def wake(self) -> None:
        """Undo ``sleep``."""
        self._llm.wake_up()

    def stop(self) -> None:
        """End the engine core."""
        self._engine.engine_core.shutdown()


@dataclass(frozen=True, slots=True)
class _Returned:
    """What one call came to: a moment of the monotonic clock, vLLM's CPU time and outputs."""

    returned: float
    vllm_cpu_s: float
    finished: list[Any]


@dataclass(slots=True)
class _Run:
    """What is left of the timed part."""

    began: float  # on the monotonic clock
    cpu_s: float = 0.0  # ours
    calls: list[_Returned] = field(default_factory=list)
