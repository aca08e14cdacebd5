"""How each metric is computed from one trial; the formulas in words are in `metrics.METRICS`.

Latencies count from `arrived`, when a request should have started: a client that is late in sending would otherwise
hide the wait it causes (coordinated omission).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from app.measure.columns import Columns, Floats
from app.measure.parts import TimePart, split_time
from app.measure.records import Conditions, EngineSample, HarnessUse
from app.spec.experiment import ServiceLevels


class NoValue(Exception):
    """Why a metric has no value in a trial; never leaves `metrics.measure`."""


_CLOCK_TICK_S = 1e-9  # of `time.monotonic`: a rate over less would be beyond any number


@dataclass(frozen=True, slots=True)
class Basis:
    """All a metric may look at."""

    columns: Columns
    timeline: tuple[EngineSample, ...]
    conditions: Conditions | None
    gpus: int
    service_levels: ServiceLevels
    harness: HarnessUse | None = None

    @property
    def began_s(self) -> float:
        """When the first request should have started."""
        return float(self.columns.arrived_s.min())

    @property
    def duration_s(self) -> float:
        """The makespan."""
        duration = float(self.columns.delivered_s.max()) - self.began_s
        if duration < _CLOCK_TICK_S:
            raise NoValue("the trial took no measurable time")
        return duration

    def known(self, name: str) -> Floats:
        """A column that must be known for every sample: an average over some of them would be another quantity."""
        column: Floats = getattr(self.columns, name)
        unknown = int(np.isnan(column).sum())
        if unknown:
            raise NoValue(f"the engine reported no {name} for {unknown} of {len(column)} samples")
        return column


def duration_s(basis: Basis) -> float:
    """Makespan: from the first `arrived` to the last `delivered`."""
    return basis.duration_s


def _output_tokens(basis: Basis) -> int:
    return int(basis.columns.output_tokens.sum())


def output_throughput(basis: Basis) -> float:
    """Output tokens per `duration_s`."""
    return _output_tokens(basis) / basis.duration_s


def total_token_throughput(basis: Basis) -> float:
    """Prompt and output tokens per `duration_s`; a prompt counts once for each of its samples."""
    return (int(basis.columns.prompt_tokens.sum()) + _output_tokens(basis)) / basis.duration_s


def request_throughput(basis: Basis) -> float:
    """Completed samples per `duration_s`."""
    return len(basis.columns) / basis.duration_s


def output_throughput_per_gpu(basis: Basis) -> float:
    """`output_throughput` divided by the GPUs of the arm."""
    if not basis.gpus:
        raise NoValue("the arm uses no GPU")
    return output_throughput(basis) / basis.gpus


def ttft_ms(basis: Basis) -> Floats:
    """Time to first token: `first_token - arrived`. The first token by the engine's clock, so that it exists in every
    mode.
    """
    return 1000.0 * (basis.known("first_token_s") - basis.columns.arrived_s)


def tpot_ms(basis: Basis) -> Floats:
    """Time per output token: `(last_token - first_token) / (n - 1)` of samples with n > 1 tokens."""
    several = basis.columns.output_tokens > 1
    if not several.any():
        raise NoValue("no sample has more than one token")
    span = basis.known("last_token_s") - basis.known("first_token_s")
    return 1000.0 * span[several] / (basis.columns.output_tokens[several] - 1)


def itl_ms(basis: Basis) -> Floats:
    """Inter-token latency: the gaps between tokens of all samples, pooled; where the arm streams. A chunk of k tokens
    is k equal gaps. Its percentiles need as many samples as those of other metrics, because one stalled sample has many
    long gaps.
    """
    gaps = basis.columns.itl_ms
    if gaps is None:
        raise NoValue("the arm does not stream tokens")
    if not len(gaps):
        raise NoValue("no sample has more than one token")
    return gaps


def e2el_ms(basis: Basis) -> Floats:
    """End-to-end latency: `delivered - arrived`."""
    return 1000.0 * (basis.columns.delivered_s - basis.columns.arrived_s)


def engine_e2el_ms(basis: Basis) -> Floats:
    """Latency until the engine is done: `last_token - arrived`."""
    return 1000.0 * (basis.known("last_token_s") - basis.columns.arrived_s)


def delivery_ms(basis: Basis) -> Floats:
    """Delivery delay: `delivered - last_token`. Large by design where a call returns with its whole batch, so it is
    not compared.
    """
    return 1000.0 * (basis.columns.delivered_s - basis.known("last_token_s"))


def queue_ms(basis: Basis) -> Floats:
    """Waiting in the engine: `scheduled - queued`."""
    return 1000.0 * (basis.known("scheduled_s") - basis.known("queued_s"))


def client_queue_ms(basis: Basis) -> Floats:
    """Waiting before the engine: `sent - arrived`. A request should start with its batch, at the time drawn for it or,
    where so many may be in flight, in the moment a slot is free.
    """
    return 1000.0 * (basis.columns.sent_s - basis.columns.arrived_s)


def _part_ms(basis: Basis, part: TimePart) -> Floats:
    """A part of every sample's time; no value where it cannot be told from others."""
    span, seconds = next((span, seconds) for span, seconds in split_time(basis.columns) if part in span.parts)
    if span.reason is not None:
        raise NoValue(f"it is within `{span.name}`: {span.reason}")
    return 1000.0 * seconds


def transport_out_ms(basis: Basis) -> Floats:
    """On the way to a server: `received - sent`."""
    return _part_ms(basis, TimePart.TRANSPORT_OUT)


def preparation_ms(basis: Basis) -> Floats:
    """Making token ids of a request in a server: `prepared - received`."""
    return _part_ms(basis, TimePart.PREPARATION)


def hand_in_ms(basis: Basis) -> Floats:
    """From a server's token ids to the engine core, through vLLM's front end: `queued - prepared`."""
    return _part_ms(basis, TimePart.HAND_IN)


def submission_ms(basis: Basis) -> Floats:
    """All the way from the caller into the engine core: `queued - sent`. `transport_out_ms`, `preparation_ms` and
    `hand_in_ms` together, which not every mode can tell apart.
    """
    return 1000.0 * (basis.known("queued_s") - basis.columns.sent_s)


def prefill_ms(basis: Basis) -> Floats:
    """From a sample's first step to its first token: `first_token - scheduled`."""
    return _part_ms(basis, TimePart.PREFILL)


def decode_ms(basis: Basis) -> Floats:
    """From a sample's first token to its last: `last_token - first_token`."""
    return _part_ms(basis, TimePart.DECODE)


def hand_over_ms(basis: Basis) -> Floats:
    """From the engine core out of a server, through vLLM's front end: `left - last_token`."""
    return _part_ms(basis, TimePart.HAND_OVER)


def transport_back_ms(basis: Basis) -> Floats:
    """On the way from a server back to the caller: `delivered - left`."""
    return _part_ms(basis, TimePart.TRANSPORT_BACK)


def _seconds_to_share(basis: Basis, share: float) -> float:
    """Until samples with this share of the output tokens were complete in the engine."""
    ends = basis.known("last_token_s")
    order = np.argsort(ends, kind="stable")
    tokens = np.cumsum(basis.columns.output_tokens[order])
    if not tokens[-1]:
        raise NoValue("no token was generated")
    return float(ends[order][np.searchsorted(tokens, share * tokens[-1])]) - basis.began_s


def time_to_50pct_s(basis: Basis) -> float:
    """Until half of the output tokens were out, from the first `arrived`. A token counts when its sample's
    `last_token` is out, because not every mode has times of single tokens.
    """
    return _seconds_to_share(basis, 0.5)


def time_to_90pct_s(basis: Basis) -> float:
    """Until 90 % of the output tokens were out; counted as for `time_to_50pct_s`."""
    return _seconds_to_share(basis, 0.9)


def tail_bubble_pct(basis: Basis) -> float:
    """Share of `duration_s` after `time_to_90pct_s`: the engine is mostly idle while the last samples finish."""
    return 100.0 * (basis.duration_s - _seconds_to_share(basis, 0.9)) / basis.duration_s


def group_completion_s(basis: Basis) -> Floats:
    """Per prompt: from the first `arrived` to the last `delivered` of its samples."""
    columns = basis.columns
    order = np.argsort(columns.prompt_index, kind="stable")
    starts = np.flatnonzero(np.diff(columns.prompt_index[order], prepend=columns.prompt_index.min() - 1))
    first = np.minimum.reduceat(columns.arrived_s[order], starts)
    last = np.maximum.reduceat(columns.delivered_s[order], starts)
    return np.asarray(last - first, dtype=np.float64)


def decode_steps(basis: Basis) -> float:
    """Decode steps of the longest sample, one token each: its output tokens - 1."""
    return float(basis.columns.output_tokens.max() - 1)


def step_ms(basis: Basis) -> float:
    """Mean time of a decode step: `(last_token - first_token) / decode_steps` of the longest samples. Tells slower
    steps from more steps.
    """
    steps = decode_steps(basis)
    if steps < 1:
        raise NoValue("no sample has more than one token")
    longest = basis.columns.output_tokens == basis.columns.output_tokens.max()
    span = (basis.known("last_token_s") - basis.known("first_token_s"))[longest]
    return 1000.0 * float(span.mean()) / steps


def longest_step_ms(basis: Basis) -> float:
    """The longest wait for the engine's next step while it has requests: a step that hangs for a second hides in every
    mean. Steps by when the front end had them; the first one begins when the first request is scheduled.
    """
    if not basis.timeline:
        raise NoValue("the engine's state was not sampled")
    at = np.array([sample.at_s for sample in basis.timeline])
    busy = np.array([sample.running + sample.waiting > 0 for sample in basis.timeline[:-1]], dtype=bool)
    first_s = float(at[0] - basis.known("scheduled_s").min())
    return 1000.0 * float(np.diff(at)[busy].max(initial=first_s))


def _drafted(basis: Basis, name: str) -> int:
    """Sum over the trial's steps."""
    counts = [getattr(sample, name) for sample in basis.timeline]
    if not counts or None in counts:
        raise NoValue("decoding is not speculative")
    return sum(counts)


def accepted_tokens_per_draft(basis: Basis) -> float:
    """Where decoding is speculative: tokens of a draft that the model accepted, mean over all drafts. A draft is one
    request's guess in one step, which yields a token more than it has accepted.
    """
    drafts = _drafted(basis, "drafts")
    if not drafts:
        raise NoValue("nothing was drafted")
    return _drafted(basis, "accepted_tokens") / drafts


def draft_acceptance_pct(basis: Basis) -> float:
    """Where decoding is speculative: drafted tokens that the model accepted, of all."""
    tokens = _drafted(basis, "draft_tokens")
    if not tokens:
        raise NoValue("nothing was drafted")
    return 100.0 * _drafted(basis, "accepted_tokens") / tokens


def event_loop_lag_ms(basis: Basis) -> float:
    """Longest delay of a timer on a caller's event loop: the worst of all callers. A direct caller's loop serves the
    engine's front end too.
    """
    if basis.harness is None or basis.harness.event_loop_lag_ms is None:
        raise NoValue("the caller has no event loop")
    return basis.harness.event_loop_lag_ms


def server_lag_ms(basis: Basis) -> float:
    """Longest delay of a timer on the event loop of a server that the requests go through."""
    if basis.harness is None or basis.harness.server_lag_ms is None:
        raise NoValue("there is no server whose event loop could be watched")
    return basis.harness.server_lag_ms


def _over_time(basis: Basis, value: Callable[[EngineSample], float]) -> float:
    """Mean over the trial; what the engine reports after a step holds until the next."""
    if not basis.timeline:
        raise NoValue("the engine's state was not sampled")
    at = np.array([sample.at_s for sample in basis.timeline])
    values = np.array([value(sample) for sample in basis.timeline], dtype=np.float64)
    weights = np.diff(at)
    return float(np.average(values[:-1], weights=weights)) if weights.sum() > 0 else float(values.mean())


def running_requests(basis: Basis) -> float:
    """Requests in the engine's batch, mean over the trial's time."""
    return _over_time(basis, lambda sample: sample.running)


def kv_cache_usage_pct(basis: Basis) -> float:
    """KV-cache blocks in use, mean over the trial's time."""
    return _over_time(basis, lambda sample: sample.kv_cache_usage_pct)


def prefix_cache_hit_pct(basis: Basis) -> float:
    """Prompt tokens that came from the prefix cache, of all prompt tokens."""
    cached, prompts = float(basis.known("cached_tokens").sum()), int(basis.columns.prompt_tokens.sum())
    if not prompts:
        raise NoValue("the prompts have no tokens")
    return 100.0 * cached / prompts


def preemptions(basis: Basis) -> float:
    """Times the engine threw a running request out for want of KV cache."""
    if not np.isnan(basis.columns.preemptions).any():
        return float(basis.columns.preemptions.sum())
    if not basis.timeline:
        raise NoValue("the engine reported no preemptions")
    return float(sum(sample.preemptions for sample in basis.timeline))


def _condition(basis: Basis, name: str) -> float:
    value = getattr(basis.conditions, name, None)
    if value is None:
        raise NoValue("no GPU telemetry")
    return float(value)


def gpu_util_pct(basis: Basis) -> float:
    """Share of the trial in which the GPU ran any kernel, as NVML samples it."""
    return _condition(basis, "gpu_util_pct")


def sm_clock_mhz(basis: Basis) -> float:
    """Clock of the GPU's multiprocessors, mean over the trial."""
    return _condition(basis, "sm_clock_mhz")


def power_w(basis: Basis) -> float:
    """Power of the GPU, mean over the trial."""
    return _condition(basis, "power_w")


def energy_j_per_output_token(basis: Basis) -> float:
    """Energy the GPU took during the trial, per output token."""
    energy, tokens = _condition(basis, "energy_j"), _output_tokens(basis)
    if not tokens:
        raise NoValue("no token was generated")
    return energy / tokens


def request_goodput(basis: Basis) -> float:
    """Samples within all of `decision.service_levels`, per `duration_s`; latencies count from `arrived`."""
    levels = basis.service_levels
    good = np.ones(len(basis.columns), dtype=bool)
    if levels.ttft_ms is None and levels.tpot_ms is None and levels.e2el_ms is None:
        raise NoValue("the experiment sets no service levels")
    if levels.ttft_ms is not None:
        good &= ttft_ms(basis) <= levels.ttft_ms
    if levels.tpot_ms is not None:
        # A sample of one token has no time per output token that could be too long.
        several = basis.columns.output_tokens > 1
        if several.any():
            good[several] &= tpot_ms(basis) <= levels.tpot_ms
    if levels.e2el_ms is not None:
        good &= e2el_ms(basis) <= levels.e2el_ms
    return int(good.sum()) / basis.duration_s
