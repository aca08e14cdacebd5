"""A laboratory with a past, written through the store: experiments of every kind a page may meet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import update

from app.errors import FailureCode
from app.judge.results import NoiseFloor, build_results
from app.measure.metrics import summarise
from app.measure.records import StartedArm, TrialResult, TrialState
from app.spec.experiment import Experiment
from app.spec.lifecycle import Current, Failure, Progress, Status, Step
from app.spec.plan import plan_trials
from app.spec.resolution import resolve
from app.store import queue, trials, workers
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.queue import Claim, Lease
from app.store.tables import experiments as table
from tests.support.builders import a_resolved_arm, a_spec
from tests.support.rollouts import Engine, Size, a_rollout
from tests.support.work import run_steps

LEASE_S = 3600.0
OWNER = "gpu-7-4211"
HARDWARE: dict[str, object] = {
    "gpu": "NVIDIA H200",
    "gpu_count": 1,
    "gpu_memory_mib": 143771,
    "gpu_driver": "580.159.04",
    "cpu": "Intel(R) Xeon(R) Platinum 8468",
    "cpu_cores": 16,
    "memory_gib": 128,
    "python": "3.11.7",
}
VERSIONS = {"vllm": "0.25.1", "torch": "2.11.0+cu130", "ray": "2.60.0"}
LARGE = Size()
SMALL = Size(prompts=4, samples=4, median=40, longest=200)
FLOOR = NoiseFloor(floor_pct=0.31, noise_pct=0.35, experiments=2)
HOSTILE = "<script>alert('pages')</script>"
RIGHT_TO_LEFT = "مزامنة 12"


@dataclass(frozen=True)
class Lab:
    """Ids of the experiments, by what they are."""

    db: Database
    ids: Mapping[str, ExperimentId]
    running: Claim

    def __getitem__(self, name: str) -> ExperimentId:
        return self.ids[name]


def a_lab(db: Database) -> Lab:
    """Everything, oldest first."""
    ids: dict[str, ExperimentId] = {}
    for number, (name, make) in enumerate(STORIES.items()):
        ids[name] = make(db)
        age(db, ids[name], hours=26.5 * (len(STORIES) - number) - 20)
    workers.announce(
        db,
        OWNER,
        host="gpu-7",
        pid=4211,
        info={"nodes": [{"host": "gpu-7", "cpus": 16.0, "gpus": 1.0}], "versions": VERSIONS},
    )
    claimed = a_running(db)
    ids["running"] = claimed.lease.experiment_id
    workers.heartbeat(db, OWNER, experiment_id=claimed.lease.experiment_id)
    for number, name in enumerate(("prefix cache on against off", "streaming or not", "one replica or two")):
        ids[f"queued {number}"] = queue.enqueue(db, rollout_spec(name=name)).experiment_id
    return Lab(db, ids, claimed)


def age(db: Database, experiment_id: ExperimentId, hours: float, minutes: float = 11.4) -> None:
    """Let an experiment have been submitted so long ago, and have taken so long."""
    created = datetime.now(UTC) - timedelta(hours=hours)
    took = timedelta(minutes=minutes)
    with db.write() as connection:
        connection.execute(update(table).where(table.c.id == experiment_id).values(created_at=created))
        connection.execute(
            update(table)
            .where(table.c.id == experiment_id, table.c.started_at.is_not(None))
            .values(started_at=created + timedelta(seconds=2), finished_at=created + took)
        )


# --- specs ---------------------------------------------------------------------------------------------------------


def rollout_spec(**changes: Any) -> Experiment:
    """Rollouts of a 7B on one GPU, sync against async."""
    return a_spec(
        **(
            {
                "name": "GRPO rollouts of a 7B, sync against async",
                "labels": {"suite": "gpu"},
                "model": {"preset": "qwen2.5-7b-shape"},
                "engine": {"dtype": "bfloat16", "max_num_batched_tokens": 10240},
                "workload": {
                    "prompts": {"source": "synthetic", "count": 16, "tokens": {"distribution": "fixed", "value": 256}},
                    "samples_per_prompt": 16,
                    "output": {
                        "stop": "length",
                        "tokens": {"distribution": "lognormal", "median": 320, "sigma": 0.75, "max": 2048},
                    },
                },
                "plan": {"blocks": 8},
            }
            | changes
        )
    )


def simulated_spec(**changes: Any) -> Experiment:
    """No engine, noise of 1 %."""
    arms = [
        {
            "name": name,
            "profile": "simulated",
            "driver": {"seconds_per_token": seconds, "prefill_s": 0.05, "noise_pct": 1},
        }
        for name, seconds in (("sync", 0.010), ("async", 0.0112))
    ]
    workload = {
        "prompts": {"source": "synthetic", "count": 8, "tokens": {"distribution": "fixed", "value": 16}},
        "samples_per_prompt": 8,
        "output": {"stop": "length", "tokens": {"distribution": "lognormal", "median": 96, "sigma": 0.6, "max": 512}},
    }
    named = {"name": "simulated: what 12 % looks like", "labels": {"suite": "demo"}}
    return a_spec(**(named | {"arms": arms, "workload": workload} | changes))


# --- running them --------------------------------------------------------------------------------------------------


def submitted(db: Database, spec: Experiment) -> Claim:
    """Queued with the highest priority, and claimed."""
    spec = spec.model_copy(update={"limits": spec.limits.model_copy(update={"priority": 100})})
    wanted = queue.enqueue(db, spec).experiment_id
    claimed = queue.claim(db, OWNER, LEASE_S)
    assert claimed is not None
    assert claimed.lease.experiment_id == wanted
    return claimed


def run(
    db: Database,
    spec: Experiment,
    engines: Mapping[str, Engine],
    work: Size = LARGE,
    *,
    configs: Mapping[str, dict[str, object]] | None = None,
    failing: Mapping[tuple[str, int], str] | None = None,
    status: Status = Status.SUCCEEDED,
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda document: document,
    noise: NoiseFloor | None = None,
) -> ExperimentId:
    """Store an experiment as a worker with a GPU would have; `change` makes its results those of another version."""
    claimed = submitted(db, spec)
    lease, resolved = claimed.lease, resolve(claimed.spec)
    plan = plan_trials(claimed.spec, resolved)
    for arm in resolved.arms:
        trials.save_arm(
            db, lease, engine_of(arm.name, (configs or {}).get(arm.name, {}), arm.driver.model_dump(mode="json"))
        )
    clock = 1_795_000_000.0
    for planned in plan.measured:
        error = (failing or {}).get((planned.arm, planned.block))
        result = (
            a_rollout(planned, engines[planned.arm], work, 7, clock)
            if error is None
            else TrialResult(planned, TrialState.FAILED, clock, 0.8, error=error)
        )
        clock += result.wall_s + 1.2
        summary = summarise(result, lease.attempt, gpus=1, service_levels=spec.decision.service_levels)
        trials.save_trial(db, lease, result, summary)
    finish(db, claimed, status, change=change, noise=noise)
    return lease.experiment_id


def engine_of(arm: str, config: dict[str, object], driver: dict[str, Any]) -> StartedArm:
    """What an engine said it resolved to."""
    common: dict[str, object] = {
        "engine.scheduler_config.max_num_seqs": 256,
        "engine.scheduler_config.max_num_batched_tokens": 10240,
        "engine.cache_config.num_gpu_blocks": 71234,
        "engine.model_config.dtype": "torch.bfloat16",
        "env.OMP_NUM_THREADS": "1",
    }
    settings = {f"driver.{key}": value for key, value in driver.items()}
    return a_resolved_arm(arm, common | settings | config, versions=VERSIONS, hardware=HARDWARE, start_s=31.0)


def finish(
    db: Database,
    claimed: Claim,
    status: Status,
    failure: Failure | None = None,
    *,
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda document: document,
    noise: NoiseFloor | None = None,
) -> None:
    """End a claimed experiment with the results of its trials."""
    lease: Lease = claimed.lease
    resolved = resolve(claimed.spec)
    results = build_results(
        lease.experiment_id,
        spec=claimed.spec,
        resolved=resolved,
        plan=plan_trials(claimed.spec, resolved),
        status=status,
        arms=[stored.resolved for stored in trials.read_arms(db, lease.experiment_id, lease.attempt)],
        trials=trials.read_trials(db, lease.experiment_id, lease.attempt),
        failure=failure,
        noise=noise,
    )
    document = change(results.model_dump(mode="json"))
    queue.finish(
        db, lease, status, results=document, verdicts=results.verdicts, failure=failure, reason="all blocks done"
    )


# --- stories -------------------------------------------------------------------------------------------------------


def a_simulated(db: Database) -> ExperimentId:
    """Made-up timings, noise of 1 %."""
    claimed = submitted(db, simulated_spec())
    for _ in run_steps(db, claimed):
        pass
    finish(db, claimed, Status.SUCCEEDED)
    return claimed.lease.experiment_id


def a_tie(db: Database) -> ExperimentId:
    """Equal settings: the same within the margin."""
    return run(db, rollout_spec(), {"sync": Engine(whole_batch=True), "async": Engine(step_ms=7.006)}, noise=FLOOR)


def a_slower(db: Database) -> ExperimentId:
    """No asynchronous scheduling in one arm, and its spec says so."""
    arms = [
        {"name": "sync", "profile": "vllm-sync"},
        {"name": "async", "profile": "vllm-async", "engine": {"async_scheduling": False}},
    ]
    spec = rollout_spec(name="async without async scheduling", arms=arms, labels={"suite": "gpu", "issue": "4264"})
    config: dict[str, dict[str, object]] = {
        "sync": {"engine.scheduler_config.async_scheduling": True},
        "async": {"engine.scheduler_config.async_scheduling": False},
    }
    engines = {"sync": Engine(whole_batch=True), "async": Engine(step_ms=9.3, per_request_ms=0.024)}
    return run(db, spec, engines, configs=config, noise=FLOOR)


def a_faster(db: Database) -> ExperimentId:
    """One prompt, many samples."""
    arms = [
        {"name": "separate requests", "profile": "vllm-async"},
        {"name": "n parameter", "profile": "vllm-async", "driver": {"samples": "n_parameter"}},
    ]
    spec = rollout_spec(name="16 samples at once or one by one", arms=arms, plan={"blocks": 6})
    return run(db, spec, {"separate requests": Engine(), "n parameter": Engine(step_ms=6.6, prefill_s=0.02)})


def a_noisy(db: Database) -> ExperimentId:
    """Too few blocks for so much noise."""
    engines = {"sync": Engine(whole_batch=True, noise_pct=3), "async": Engine(step_ms=7.2, noise_pct=3)}
    return run(db, rollout_spec(name="on the shared host", plan={"blocks": 4}), engines, SMALL)


def a_confounded(db: Database) -> ExperimentId:
    """A scheduler limit that nobody set: vLLM chose by the way the engine was made."""
    config: dict[str, dict[str, object]] = {
        "sync": {"engine.scheduler_config.max_num_seqs": 1024},
        "async": {"engine.scheduler_config.max_num_seqs": 128},
    }
    engines = {"sync": Engine(whole_batch=True, max_num_seqs=1024), "async": Engine(max_num_seqs=128)}
    spec = rollout_spec(name="defaults of vLLM on both sides", engine={"max_num_seqs": None})
    return run(db, spec, engines, configs=config)


def a_twin(db: Database) -> ExperimentId:
    """The same arm twice."""
    arms = [{"name": "async", "profile": "vllm-async"}, {"name": "async again", "profile": "vllm-async"}]
    spec = rollout_spec(name="A/A: async twice", arms=arms, labels={"suite": "aa"})
    return run(db, spec, {"async": Engine(), "async again": Engine()})


def a_failed(db: Database) -> ExperimentId:
    """The engine died in the third block."""
    claimed = submitted(db, rollout_spec(name="8,192 tokens on a small card"))
    lease, plan = claimed.lease, plan_trials(claimed.spec, resolve(claimed.spec))
    for planned in plan.measured[:5]:
        result = a_rollout(planned, Engine(), SMALL, 7, 1_795_000_000.0 + 10 * planned.slot)
        trials.save_trial(
            db, lease, result, summarise(result, 1, gpus=1, service_levels=claimed.spec.decision.service_levels)
        )
    failure = Failure(
        code=FailureCode.ENGINE_DIED,
        detail="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.",
        arm="async",
        log_tail="INFO 12:00:03 [core.py:112] Initializing a V1 LLM engine\n"
        "INFO 12:00:31 [gpu_model_runner.py:1941] Graph capturing finished\n"
        "ERROR 12:01:12 [core.py:588] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.",
    )
    finish(db, claimed, Status.FAILED, failure)
    return lease.experiment_id


def a_cancelled(db: Database) -> ExperimentId:
    """Somebody changed their mind."""
    cancelled = queue.enqueue(db, rollout_spec(name="the wrong model", limits={"priority": -100})).experiment_id
    queue.request_cancel(db, cancelled)
    return cancelled


def an_only_arm(db: Database) -> ExperimentId:
    """Nothing to compare with."""
    spec = rollout_spec(name="one arm alone", arms=[{"name": "async", "profile": "vllm-async"}], plan={"blocks": 3})
    return run(db, spec, {"async": Engine()}, SMALL)


def forty_arms(db: Database) -> ExperimentId:
    """A hand-made sweep of one limit."""
    sizes = [64 + 16 * number for number in range(40)]
    names = {f"max_num_seqs {size}": size for size in sizes}
    arms = [{"name": name, "profile": "vllm-async", "engine": {"max_num_seqs": size}} for name, size in names.items()]
    spec = rollout_spec(name="40 arms", arms=arms, plan={"blocks": 3})
    engines = {name: Engine(max_num_seqs=size // 32) for name, size in names.items()}
    config: dict[str, dict[str, object]] = {
        name: {"engine.scheduler_config.max_num_seqs": size} for name, size in names.items()
    }
    return run(db, spec, engines, SMALL, configs=config)


def a_hostile(db: Database) -> ExperimentId:
    """Names that are markup, and names that are read from the right."""
    names = (HOSTILE, RIGHT_TO_LEFT, "]]>&amp;\"'`${x}{{y}}")
    arms = [
        {"name": names[0], "profile": "vllm-sync"},
        {"name": names[1], "profile": "vllm-async"},
        {"name": names[2], "profile": "vllm-async", "engine": {"enforce_eager": True}},
    ]
    labels = {"note": HOSTILE, "שם": "ערך"}
    spec = rollout_spec(name=f"{HOSTILE} {RIGHT_TO_LEFT} {'x' * 90}", arms=arms, labels=labels, plan={"blocks": 4})
    return run(db, spec, {name: Engine(step_ms=7 + index) for index, name in enumerate(names)}, SMALL)


def with_a_dropped_block(db: Database) -> ExperimentId:
    """One trial failed."""
    spec = rollout_spec(name="one block lost", plan={"blocks": 6})
    engines = {"sync": Engine(whole_batch=True), "async": Engine(step_ms=7.4)}
    return run(db, spec, engines, SMALL, failing={("async", 2): "the engine died"})


def from_an_older_version(db: Database) -> ExperimentId:
    """Without keys this version would like."""

    def older(document: dict[str, Any]) -> dict[str, Any]:
        for comparison in document["comparisons"]:
            del comparison["p_holm"], comparison["analysis"], comparison["blocks_needed"]
        for arm in document["arms"]:
            del arm["itl_ms"], arm["delivery_ms"]
        del document["fairness"], document["method"]
        return document

    return run(db, rollout_spec(name="from an older version"), _PLAIN, SMALL, change=older)


def from_a_newer_version(db: Database) -> ExperimentId:
    """With keys and words this version has never heard of."""

    def newer(document: dict[str, Any]) -> dict[str, Any]:
        document["waterfall"] = {"steps": [1, 2]}
        document["explanation"] = {"causes": []}
        document["method"] = {"name": "paired-log-t", "version": 3}
        document["warnings"].append({"code": "moonlight", "detail": "A full moon.", "arm": None})
        document["comparisons"][1]["verdict"] = "much_slower"
        document["comparisons"][0]["bayes_factor"] = 3.2
        document["parity"]["equal"] = "mostly"
        return document

    return run(db, rollout_spec(name="from a newer version"), _PLAIN, SMALL, change=newer)


def a_running(db: Database) -> Claim:
    """Five of twelve trials are done."""
    claimed = submitted(db, simulated_spec(name="running now", labels={"suite": "nightly"}))
    steps = run_steps(db, claimed)
    for _ in range(7):
        next(steps)
    progress = Progress(
        step=Step.MEASURING, trials_done=5, trials_total=12, current=Current(arm="async", block=2), eta_s=31.5
    )
    queue.beat(db, claimed.lease, LEASE_S, progress)
    return claimed


_PLAIN = {"sync": Engine(whole_batch=True), "async": Engine(step_ms=7.1)}

STORIES: dict[str, Callable[[Database], ExperimentId]] = {
    "older": from_an_older_version,
    "newer": from_a_newer_version,
    "cancelled": a_cancelled,
    "single": an_only_arm,
    "hostile": a_hostile,
    "forty": forty_arms,
    "dropped": with_a_dropped_block,
    "failed": a_failed,
    "simulated": a_simulated,
    "noisy": a_noisy,
    "twin": a_twin,
    "confounded": a_confounded,
    "faster": a_faster,
    "tie": a_tie,
    "slower": a_slower,
}
