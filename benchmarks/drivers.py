"""What the harness costs: each driver against a bare loop that does nothing but call vLLM.

    python -m benchmarks.drivers [--driver llm] [--pairs 60] [--samples 32] [--tokens 128] [--model tiny-qwen2]

Both use the same engine and, in each pair, the same requests, in alternating order. The ratio is the driver's reported
throughput over the bare loop's: 1 is free, below 1 is what the harness costs. Needs vLLM.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable
from typing import Any

from app.experiment.plan import Phase, PlannedTrial
from app.experiment.resolution import resolve
from app.experiment.spec import Driver as DriverSettings
from app.experiment.spec import Experiment
from app.stats.estimate import NoEstimate, to_ratio
from app.stats.paired import compare_paired
from workers.drivers import make_driver
from workers.drivers.base import Batch, Rollout
from workers.workload import Workload

DRIVERS: dict[str, dict[str, Any]] = {
    "llm": {"profile": "vllm-sync"},
    "llm-in-process": {"profile": "vllm-sync", "driver": {"engine_process": "in_process"}},
    "async_llm": {"profile": "vllm-async"},
    "async_llm-delta": {"profile": "vllm-async", "driver": {"output_kind": "delta"}},
    "async_llm-cumulative": {"profile": "vllm-async", "driver": {"output_kind": "cumulative"}},
}


def experiment(arguments: argparse.Namespace) -> Experiment:
    """The workload of every pair."""
    return Experiment.model_validate(
        {
            "model": {"preset": arguments.model},
            "engine": {"max_num_seqs": 256, "max_num_batched_tokens": 10240},
            "workload": _workload(arguments),
            "arms": [{"name": arguments.driver} | DRIVERS[arguments.driver]],
        }
    )


def _workload(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "prompts": {
            "source": "synthetic",
            "count": arguments.samples,
            "tokens": {"distribution": "fixed", "value": 128},
        },
        "samples_per_prompt": 1,
        "output": {"stop": "length", "tokens": {"distribution": "fixed", "value": arguments.tokens}},
        "sampling": {"per_request_seed": False},
    }


def bare_llm(driver: Any, batch: Batch, params: list[Any]) -> float:
    """`LLM.generate`, seconds."""
    prompts = [{"prompt_token_ids": list(request.prompt_token_ids)} for request in batch.requests]
    began = time.monotonic()
    driver._llm.generate(prompts, params, use_tqdm=False)
    return time.monotonic() - began


def bare_async_llm(driver: Any, batch: Batch, params: list[Any]) -> float:
    """One task per request that drains `AsyncLLM.generate`, seconds."""
    from vllm.inputs.engine import tokens_input

    prompts = [tokens_input(list(request.prompt_token_ids)) for request in batch.requests]

    async def drain(index: int) -> None:
        async for _ in driver._engine.generate(prompts[index], params[index], f"bare-{index}"):
            pass

    async def everything() -> float:
        began = time.monotonic()
        await asyncio.gather(*(drain(index) for index in range(len(prompts))))
        return time.monotonic() - began

    return float(driver._await(everything()))


def sampling_params(batch: Batch, settings: Any) -> list[Any]:
    """What the driver would ask for, one object per request."""
    from vllm.sampling_params import RequestOutputKind

    from workers.drivers import requests

    kind = requests.OUTPUT_KINDS[settings.output_kind] if hasattr(settings, "output_kind") else None
    return [call.params for call in requests.make_calls(batch, settings, kind or RequestOutputKind.FINAL_ONLY)]


def makespan_s(rollout: Rollout) -> float:
    """What the harness reports as the trial's duration."""
    return max(r.delivered_s for r in rollout.records) - min(r.arrived_s for r in rollout.records)


def run_pairs(
    driver: Any,
    bare: Callable[[Any, Batch, list[Any]], float],
    workload: Workload,
    settings: DriverSettings,
    pairs: int,
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Seconds of the bare loop, of the driver, CPU seconds of the harness; +1 where the bare loop went first."""
    bare_s, driver_s, harness_s, positions = [], [], [], []
    for pair in range(-2, pairs):
        trial = PlannedTrial(slot=0, phase=Phase.MEASURED, block=pair + 2, arm="", position=0)
        batch = workload.batch(trial)
        times: dict[str, float] = {}
        cpu = 0.0
        for which in ("bare", "driver") if pair % 2 == 0 else ("driver", "bare"):
            driver.reset_prefix_cache()
            if which == "bare":
                times[which] = bare(driver, batch, sampling_params(batch, settings))
            else:
                rollout = driver.rollout(batch, settings)
                times[which], cpu = makespan_s(rollout), rollout.harness.cpu_s
        if pair >= 0:  # the first two warm the engine up
            bare_s.append(times["bare"])
            driver_s.append(times["driver"])
            harness_s.append(cpu)
            positions.append(1.0 if pair % 2 == 0 else -1.0)
    return bare_s, driver_s, harness_s, positions


def main() -> None:
    """Print one row: ratio of throughputs with its 95 % interval, and the harness's share of the CPU time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", choices=DRIVERS, default="llm")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--model", default="tiny-qwen2")
    arguments = parser.parse_args()
    spec = experiment(arguments)
    resolved = resolve(spec)
    (arm,) = resolved.arms
    driver = make_driver(arm, sleep_mode=False, seed=0)
    started = driver.start()
    workload = Workload(spec, resolved, started.vocab_size, driver.encode)
    bare = bare_llm if arguments.driver.startswith("llm") else bare_async_llm
    bare_s, driver_s, harness_s, positions = run_pairs(driver, bare, workload, arm.driver, arguments.pairs)
    driver.stop()
    result = compare_paired(driver_s, bare_s, [int(-sign) for sign in positions], confidence=0.95)
    if isinstance(result, NoEstimate):
        raise SystemExit(result.reason)
    ratio = result.log_ratio.transformed(to_ratio)
    share = 100.0 * statistics.mean(cpu / s for cpu, s in zip(harness_s, driver_s, strict=True))
    print(
        "| driver | samples x tokens | pairs | bare s | throughput ratio | 95 % interval | sd of a pair | harness CPU |"
    )
    print("|---|---|---|---|---|---|---|---|")
    print(
        f"| {arguments.driver} | {arguments.samples} x {arguments.tokens} | {result.blocks} "
        f"| {statistics.mean(bare_s):.3f} | {ratio.value:.4f} | {ratio.low:.4f} to {ratio.high:.4f} "
        f"| {100 * result.sd:.1f} % | {share:.2f} % |"
    )


if __name__ == "__main__":
    main()
