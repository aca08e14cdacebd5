"""The same trials the way they are usually done: a fresh `vllm bench throughput` process for each.

It runs the part's own arms: same engine settings, as many requests of the same lengths, in the order of the plan. The
processes find the service's compiled graphs, because they too start with sleep mode on. Whatever has run is kept, and
a repeated call goes on from there.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from statistics import mean
from typing import Any

from app.spec.experiment import Api
from app.spec.models import MODELS
from app.spec.resolution import ResolvedArm, resolve
from app.stats.estimate import NoEstimate, to_percent
from app.stats.paired import compare_paired
from benchmarks.gpu.budget import Deadline
from benchmarks.gpu.parts import experiment_of, plan_of
from benchmarks.gpu.process import failure_of, run_until
from workers.engine_config import build_engine_arguments, build_engine_environment

Object = dict[str, Any]

PART = "e-fresh"
PROCESS_S = 70.0
GOAL = 1 / 3
# What `vllm bench throughput` calls, without the imports of vLLM's other commands, which a lean host may lack.
_MAIN = (
    "from vllm.benchmarks import throughput; from vllm.utils.argparse_utils import FlexibleArgumentParser; "
    "parser = FlexibleArgumentParser(); throughput.add_cli_args(parser); throughput.main(parser.parse_args())"
)
_NOT_ARGUMENTS = ("skip_tokenizer_init", "disable_log_stats")


def command(arm: ResolvedArm, workload: Object, seed: int, out: Path, *, sleep_mode: bool) -> list[str]:
    """One process; prompts are random text, so it needs a tokenizer, and any will do."""
    arguments = build_engine_arguments(arm, sleep_mode) | {
        "tokenizer": str(MODELS["tiny-qwen2"].path),
        "random_input_len": workload["prompts"]["tokens"]["value"],
        "random_output_len": workload["output"]["tokens"]["value"],
        "num_prompts": workload["prompts"]["count"] * workload["samples_per_prompt"],
        "seed": seed,
        "output_json": str(out),
        "disable_detokenize": True,
        "async_engine": arm.driver.api is Api.ASYNC_LLM,
    }
    flags = [flag for key, value in arguments.items() if key not in _NOT_ARGUMENTS for flag in _flag(key, value)]
    return [sys.executable, "-c", _MAIN, *flags]


def _flag(key: str, value: object) -> list[str]:
    name = key.replace("_", "-")
    if key in ("async_engine", "disable_detokenize"):  # these have no negation
        return [f"--{name}"] if value else []
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name}", str(value)]


def spec_of(spec: Object) -> Object:
    """Two arms of an experiment: what is run in fresh processes."""
    return spec | {"arms": spec["arms"][:2]}


def measure(spec: Object, folder: Path, deadline: Deadline) -> Object:
    """Run what is missing of the plan's measured trials, one process each, while another is likely to fit."""
    arms = {arm.name: arm for arm in resolve(experiment_of(spec)).arms}
    log, on_gpu = folder / "log.txt", which("nvidia-smi") is not None
    failure: Object | None = None
    for trial in plan_of(spec).measured:
        file = folder / f"{trial.slot:02}.json"
        if file.exists() or failure is not None or deadline.left_s < PROCESS_S:
            continue
        out = folder / f"{trial.slot:02}-vllm.json"
        arm = arms[trial.arm]
        arguments = command(arm, spec["workload"], trial.block, out, sleep_mode=on_gpu)
        ran = run_until(arguments, build_engine_environment(arm, on_gpu), log, log, deadline)
        failure = failure_of(ran, log)
        if failure is None and out.exists():
            found = trial.model_dump(mode="json") | {"trial_s": json.loads(out.read_text())["elapsed_time"]} | ran
            file.write_text(json.dumps(found))
    kept = [json.loads(file.read_text()) for file in sorted(folder.glob("[0-9][0-9].json"))]
    return {"failure": failure, "processes": kept}


def cost(processes: Sequence[Object], trials: int, service: Object | None) -> Object:
    """GPU seconds of all trials as fresh processes, scaled up where not all ran, against the service's experiment."""
    if not processes:
        return {"trials": trials, "ran": 0}
    each = mean(one["process_s"] for one in processes)
    ours = None if service is None else service["gpu_s"]
    return {
        "trials": trials,
        "ran": len(processes),
        "process_s": each,
        "all_processes_s": each * trials,
        "service_s": ours,
        "service_share": None if not ours else ours / (each * trials),
        "goal_met": None if not ours else ours / (each * trials) <= GOAL,
        "comparison": comparison(processes),
    }


def comparison(processes: Sequence[Object]) -> Object | None:
    """The second arm against the first by the same analysis, over the blocks that both finished."""
    blocks: dict[int, list[Object]] = {}
    for one in processes:
        blocks.setdefault(one["block"], []).append(one)
    pairs = [sorted(block, key=lambda one: one["position"]) for block in blocks.values() if len(block) == 2]
    first = processes[0]["arm"]
    times = [{one["arm"]: one["trial_s"] for one in pair} for pair in pairs]
    result = compare_paired(
        [pair[first] for pair in times],
        [seconds for pair in times for arm, seconds in pair.items() if arm != first],
        [1 if pair[0]["arm"] == first else -1 for pair in pairs],
        confidence=0.95,
    )
    if isinstance(result, NoEstimate):
        return None
    change = result.log_ratio.transform(to_percent)
    return {
        "blocks": result.blocks,
        "duration_change_pct": change.value,
        "interval_pct": [change.low, change.high],
        "sd_pct": 100 * result.sd,
    }
