"""What must be equal for two results to be comparable."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from pydantic import Field, JsonValue

from app.measure.records import StartedArm
from app.spec.experiment import Experiment
from app.spec.frozen import SpecModel
from app.spec.resolution import ResolvedExperiment

# Where an engine ran, not how: which GPU of several like ones, addresses, directories, random ids.
_NOT_IDENTITY = (
    "env.CUDA_VISIBLE_DEVICES",
    "env.VLLM_DIST_IDENT",
    "env.VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME",
    "env.*_IP",
    "env.*_PORT",
    "env.*_ROOT",
)


class EnvironmentReport(SpecModel):
    """Where the results come from, for people, and the hash by which machines tell it from elsewhere."""

    fingerprint: str = Field(
        description="SHA-256 of what must be equal for two results to be comparable: workload, model, arms, "
        "hardware, software, environment variables.",
        examples=["9f2b6c2f8a…"],
    )
    gpu: str | None = Field(description="GPU; null where there is none.", examples=["NVIDIA H200"])
    gpus: int = Field(description="Most GPUs any arm used.", examples=[1])
    cpu: str | None = Field(description="CPU of the worker's host.", examples=["Intel(R) Xeon(R) Platinum 8468"])
    vllm: str | None = Field(description="vLLM; every version where the arms' differ.", examples=["0.25.1"])
    versions: dict[str, str] = Field(
        description="Software the arms ran on; every version where theirs differ.",
        examples=[{"torch": "2.11.0+cu130", "ray": "2.60.0"}],
    )
    hardware: dict[str, JsonValue] = Field(
        description="The host of the first arm, as its worker reports it.", examples=[{"cpu_cores": 16}]
    )


class Identity(SpecModel):
    """Everything that must be equal. What was measured, also of the host, is no part of it; nor are names."""

    workload: JsonValue = Field(description="Workload, seed, and the state each trial starts from.")
    arms: tuple[JsonValue, ...] = Field(description="Every arm with model, settings, hardware, software, environment.")

    @property
    def fingerprint(self) -> str:
        """Its hash."""
        return hashlib.sha256(_write_canonical(self.model_dump(mode="json")).encode()).hexdigest()


def build_identity(
    spec: Experiment, resolved: ResolvedExperiment, arms: Sequence[StartedArm], *, workload_sha256: str | None = None
) -> Identity:
    """What another experiment must share to be comparable.

    `workload_sha256`: of the drawn requests; without it a prompt file that changed goes unnoticed. Arms whose engine
    has not started count with their settings alone.
    """
    started = {arm.arm: arm for arm in arms}
    parts: list[JsonValue] = [
        {
            "settings": settings.model_dump(mode="json", exclude={"name", "profile"}),
            **(describe_engine(started[settings.name]) if settings.name in started else {}),
        }
        for settings in resolved.arms
    ]
    return Identity(
        workload={
            "workload": spec.workload.model_dump(mode="json"),
            "sha256": workload_sha256,
            "service_levels": spec.decision.service_levels.model_dump(mode="json"),
            "plan": spec.plan.model_dump(
                mode="json", include={"seed", "warmup_trials", "residency", "reset_prefix_cache"}
            ),
        },
        arms=tuple(sorted(parts, key=_write_canonical)),
    )


def compute_fingerprint(
    spec: Experiment, resolved: ResolvedExperiment, arms: Sequence[StartedArm], *, workload_sha256: str | None = None
) -> str:
    """The hash of `build_identity`: 64 hexadecimal digits."""
    return build_identity(spec, resolved, arms, workload_sha256=workload_sha256).fingerprint


def describe_environment(
    spec: Experiment, resolved: ResolvedExperiment, arms: Sequence[StartedArm], *, workload_sha256: str | None = None
) -> EnvironmentReport:
    """The fingerprint and what people want to know of it."""
    versions = join_versions([arm.versions for arm in arms])
    hardware = _simplify(arms[0].hardware) if arms else {}
    return EnvironmentReport(
        fingerprint=compute_fingerprint(spec, resolved, arms, workload_sha256=workload_sha256),
        gpu=_write_text(hardware.get("gpu")),
        gpus=max((count_gpus(arm) for arm in arms), default=0),
        cpu=_write_text(hardware.get("cpu")),
        vllm=versions.get("vllm"),
        versions=versions,
        hardware=hardware,
    )


def count_gpus(arm: StartedArm) -> int:
    """How many GPUs the arm's engine runs on: a process each, and no more than it may see."""
    visible, processes = arm.hardware.get("gpu_count"), arm.config.get("engine.parallel_config.world_size")
    if not isinstance(visible, int):
        return 0
    return min(visible, processes) if isinstance(processes, int) else visible


def describe_engine(arm: StartedArm) -> dict[str, JsonValue]:
    """What of a started engine must be equal: hardware, versions, environment."""
    environment = {
        key: value
        for key, value in arm.config.items()
        if key.startswith("env.") and not any(fnmatchcase(key, pattern) for pattern in _NOT_IDENTITY)
    }
    hardware = dict(arm.hardware)
    if isinstance(memory := hardware.get("memory_gib"), int):
        hardware["memory_gib"] = round_to_installed_gib(memory)
    return {"hardware": _simplify(hardware), "versions": dict(arm.versions), "environment": _simplify(environment)}


def round_to_installed_gib(reported: int) -> int:
    """Memory as it is sold, in eighths of a power of two: kernel and firmware keep some of it, and not always the
    same, but less than the step to the next size.
    """
    step = max(1, (1 << (reported - 1).bit_length()) // 8) if reported > 0 else 1
    return -(-reported // step) * step


def join_versions(versions: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Every version of each piece of software, where arms' differ."""
    names = sorted({name for one in versions for name in one})
    return {name: ", ".join(sorted({one[name] for one in versions if name in one})) for name in names}


def _simplify(values: Mapping[str, object]) -> dict[str, JsonValue]:
    plain: dict[str, JsonValue] = json.loads(json.dumps(values, default=str))
    return plain


def _write_text(value: JsonValue) -> str | None:
    return None if value is None else str(value)


def _write_canonical(value: JsonValue) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
