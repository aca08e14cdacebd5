"""What the harness costs: each driver against a bare loop that does nothing but call vLLM.

    python -m benchmarks.drivers [--driver llm] [--bare generate] [--pairs 60] [--samples 4 32] [--tokens 128]
        [--model tiny-qwen2]

Both use the same engine and, in each pair, the same requests, in alternating order. The ratio is the driver's reported
throughput over the bare loop's: 1 is free, below 1 is what the harness costs. `llm` is compared with `LLM.generate`, or
with `--bare steps` with the loop inside it, which its driver runs too. Needs vLLM.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from app.spec.experiment import DriverSettings, Experiment
from app.spec.plan import Phase, PlannedTrial
from app.spec.resolution import resolve
from app.stats.estimate import NoEstimate, to_ratio
from app.stats.paired import compare_paired
from workers.batches import SeededBatches
from workers.drivers import make_driver
from workers.drivers.base import Batch, Rollout
from workers.heap import freeze_heap

Bare = Callable[[Any, Batch, list[Any]], float]  # driver, requests, their sampling parameters: seconds

DRIVERS: dict[str, dict[str, Any]] = {
    "llm": {"profile": "vllm-sync"},
    "llm-in-process": {"profile": "vllm-sync", "driver": {"engine_process": "in_process"}},
    "async_llm": {"profile": "vllm-async"},
    "async_llm-delta": {"profile": "vllm-async", "driver": {"output_kind": "delta"}},
    "async_llm-cumulative": {"profile": "vllm-async", "driver": {"output_kind": "cumulative"}},
}


@dataclass
class Pairs:
    """What the pairs gave: seconds, and +1 where the driver went first."""

    bare_s: list[float] = field(default_factory=list)
    driver_s: list[float] = field(default_factory=list)
    harness_s: list[float] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)


def experiment(arguments: argparse.Namespace, samples: int) -> Experiment:
    """The workload of every pair."""
    longest = 128 + arguments.tokens
    return Experiment.model_validate(
        {
            "model": {"preset": arguments.model},
            "engine": {"max_num_seqs": 256, "max_num_batched_tokens": 10240, "max_model_len": longest},
            "workload": {
                "prompts": {
                    "source": "synthetic",
                    "count": samples,
                    "tokens": {"distribution": "fixed", "value": 128},
                },
                "samples_per_prompt": 1,
                "output": {"stop": "length", "tokens": {"distribution": "fixed", "value": arguments.tokens}},
                "sampling": {"per_request_seed": False},
            },
            "arms": [{"name": arguments.driver} | DRIVERS[arguments.driver]],
        }
    )


def engine_inputs(batch: Batch) -> list[Any]:
    """The prompts as vLLM's engines take them, nothing left to prepare."""
    from vllm.inputs.engine import tokens_input

    return [tokens_input(list(request.prompt_token_ids)) for request in batch.requests]


def bare_generate(driver: Any, batch: Batch, params: list[Any]) -> float:
    """`LLM.generate`, seconds."""
    prompts = [{"prompt_token_ids": list(request.prompt_token_ids)} for request in batch.requests]
    began = time.monotonic()
    driver._llm.generate(prompts, params, use_tqdm=False)
    return time.monotonic() - began


def bare_steps(driver: Any, batch: Batch, params: list[Any]) -> float:
    """`LLMEngine.add_request` for each, and `step` until all are done, seconds."""
    engine = driver._llm.llm_engine
    prompts = engine_inputs(batch)
    began = time.monotonic()
    for index, prompt in enumerate(prompts):
        engine.add_request(f"bare-{index}", prompt, params[index])
    while engine.has_unfinished_requests():
        engine.step()
    return time.monotonic() - began


def bare_async_llm(driver: Any, batch: Batch, params: list[Any]) -> float:
    """One task per request that drains `AsyncLLM.generate`, seconds."""
    prompts = engine_inputs(batch)

    async def drain(index: int) -> None:
        async for _ in driver._engine.generate(prompts[index], params[index], f"bare-{index}"):
            pass

    async def everything() -> float:
        began = time.monotonic()
        await asyncio.gather(*(drain(index) for index in range(len(prompts))))
        return time.monotonic() - began

    return float(driver._await(everything()))


BARE_LLM: dict[str, Bare] = {"generate": bare_generate, "steps": bare_steps}


def sampling_params(batch: Batch, settings: Any) -> list[Any]:
    """What the driver would ask for, one object per request."""
    from vllm.sampling_params import RequestOutputKind

    from workers.drivers import exchange

    kind = exchange.OUTPUT_KINDS[settings.output_kind] if hasattr(settings, "output_kind") else None
    return [call.params for call in exchange.make_calls(batch, settings, kind or RequestOutputKind.FINAL_ONLY)]


def makespan_s(rollout: Rollout) -> float:
    """What the harness reports as the trial's duration."""
    return max(r.delivered_s for r in rollout.records) - min(r.arrived_s for r in rollout.records)


def run_pairs(driver: Any, bare: Bare, workload: SeededBatches, settings: DriverSettings, pairs: int) -> Pairs:
    """Alternating pairs, after two that warm the engine up."""
    kept = Pairs()
    for pair in range(-2, pairs):
        batch = workload.draw_batch(PlannedTrial(slot=0, phase=Phase.MEASURED, block=pair + 2, arm="", position=0))
        bare_first = pair % 2 == 0
        times: dict[bool, float] = {}
        harness_s = 0.0
        for is_bare in (bare_first, not bare_first):
            driver.reset_prefix_cache()
            if is_bare:
                times[True] = bare(driver, batch, sampling_params(batch, settings))
            else:
                rollout = driver.rollout(batch, settings, nullcontext())
                times[False], harness_s = makespan_s(rollout), rollout.harness.cpu_s
        if pair >= 0:
            kept.bare_s.append(times[True])
            kept.driver_s.append(times[False])
            kept.harness_s.append(harness_s)
            kept.positions.append(-1 if bare_first else 1)
    return kept


def row(name: str, samples: int, tokens: int, pairs: Pairs) -> str:
    """Ratio of throughputs with its 95 % interval, and the harness's share of CPU time."""
    # Less time is more throughput: the driver's throughput over the bare loop's is bare time over driver time.
    result = compare_paired(pairs.driver_s, pairs.bare_s, pairs.positions, confidence=0.95)
    if isinstance(result, NoEstimate):
        return f"| {name} | {samples} x {tokens} | {result.reason} |"
    ratio = result.log_ratio.transform(to_ratio)
    share = 100.0 * statistics.mean(cpu / s for cpu, s in zip(pairs.harness_s, pairs.driver_s, strict=True))
    return (
        f"| {name} | {samples} x {tokens} | {result.blocks} | {statistics.mean(pairs.bare_s):.3f} "
        f"| {ratio.value:.4f} | {ratio.low:.4f} to {ratio.high:.4f} | {100 * result.sd:.1f} % | {share:.2f} % |"
    )


def main() -> None:
    """Print one row per size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", choices=DRIVERS, default="llm")
    parser.add_argument("--bare", choices=BARE_LLM, default="generate", help="what an llm driver is compared with")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--samples", type=int, nargs="+", default=[32])
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--model", default="tiny-qwen2")
    arguments = parser.parse_args()
    (arm,) = resolve(experiment(arguments, 1)).arms
    driver = make_driver(arm, sleep_mode=False, seed=0)
    started = driver.start()
    freeze_heap()
    print("| driver | samples x tokens | pairs | bare s | throughput ratio | 95 % interval | pair sd | harness CPU |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for samples in arguments.samples:
        spec = experiment(arguments, samples)
        workload = SeededBatches(spec, resolve(spec), started.vocab_size, driver.encode)
        bare = BARE_LLM[arguments.bare] if arguments.driver.startswith("llm") else bare_async_llm
        pairs = run_pairs(driver, bare, workload, arm.driver, arguments.pairs)
        print(row(arguments.driver, samples, arguments.tokens, pairs), flush=True)
    driver.stop()


if __name__ == "__main__":
    main()
