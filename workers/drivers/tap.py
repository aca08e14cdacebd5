"""Listens to the engine's own statistics, one line per engine step."""

import dataclasses
import time
from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase

from app.measure.records import EngineSample


class Tap(StatLoggerBase):
    """A vLLM stat logger that keeps what a timeline needs and counts tokens.

    Does no more per step than append one tuple: it runs in the engine's front end, inside the timed part of a trial.
    The time of a row is when the front end received the step.
    """

    def __init__(self, vllm_config: object, engine_index: int = 0) -> None:
        del vllm_config, engine_index
        self.tokens = 0
        self.cpu_s = 0.0
        self._rows: list[tuple[float, int, int, float, int, int, int]] = []

    def record(
        self,
        scheduler_stats: Any = None,
        iteration_stats: Any = None,
        mm_cache_stats: Any = None,
        engine_idx: int = 0,
        **_: Any,
    ) -> None:
        """Called by vLLM after every engine step; either part may be missing."""
        del mm_cache_stats, engine_idx
        if scheduler_stats is None:
            return
        began = time.thread_time()
        prompt = output = preempted = 0
        if iteration_stats is not None:
            prompt = iteration_stats.prompt_token_stats.total
            output = iteration_stats.num_generation_tokens
            preempted = iteration_stats.num_preempted_reqs
            self.tokens += output
        self._rows.append(
            (
                time.monotonic(),
                scheduler_stats.num_running_reqs,
                scheduler_stats.num_waiting_reqs,
                scheduler_stats.kv_cache_usage,
                prompt,
                output,
                preempted,
            )
        )
        self.cpu_s += time.thread_time() - began

    def log_engine_initialized(self) -> None:
        """Nothing to say."""

    def reset(self) -> None:
        """Forget the rows of the trial before; the token count goes on."""
        self._rows.clear()
        self.cpu_s = 0.0

    def timeline(self, began: float) -> tuple[EngineSample, ...]:
        """The rows since ``reset``, in seconds after ``began`` (monotonic clock)."""
        return tuple(
            EngineSample(
                at_s=at - began,
                running=running,
                waiting=waiting,
                kv_cache_usage_pct=100.0 * usage,
                prompt_tokens=prompt,
                output_tokens=output,
                preemptions=preempted,
            )
            for at, running, waiting, usage, prompt, output, preempted in self._rows
        )


class _SpeculativeTap(Tap):
    """A tap on an engine that drafts tokens, which is told how many were accepted."""

    def __init__(self, vllm_config: object, engine_index: int = 0) -> None:
        super().__init__(vllm_config, engine_index)
        self._drafts: list[tuple[int, int, int]] = []

    def record(self, scheduler_stats: Any = None, *rest: Any, **named: Any) -> None:
        """As every tap; a step without drafts has none."""
        if scheduler_stats is not None:
            began = time.thread_time()
            stats = scheduler_stats.spec_decoding_stats
            # Before its row: whoever reads meanwhile finds no row without its drafts.
            self._drafts.append(
                (0, 0, 0) if stats is None else (stats.num_drafts, stats.num_draft_tokens, stats.num_accepted_tokens)
            )
            self.cpu_s += time.thread_time() - began
        super().record(scheduler_stats, *rest, **named)

    def reset(self) -> None:
        """Forget the drafts too."""
        super().reset()
        self._drafts.clear()

    def timeline(self, began: float) -> tuple[EngineSample, ...]:
        """The rows with their drafts."""
        return tuple(
            dataclasses.replace(sample, drafts=drafts, draft_tokens=tokens, accepted_tokens=accepted)
            for sample, (drafts, tokens, accepted) in zip(super().timeline(began), self._drafts, strict=False)
        )


def make_tap(vllm_config: Any, engine_index: int = 0) -> Tap:
    """The tap of an engine: only one that drafts tokens pays for their counts."""
    kind = Tap if vllm_config.speculative_config is None else _SpeculativeTap
    return kind(vllm_config, engine_index)
