"""What must be equal for two results to be comparable."""

from collections.abc import Sequence

from pydantic import Field, JsonValue

from app.experiment.records import ResolvedArm
from app.experiment.resolution import ResolvedExperiment
from app.experiment.spec import Experiment, SpecModel


class EnvironmentReport(SpecModel):
    """Where the results come from, for people, and the hash by which machines tell it from elsewhere."""

    fingerprint: str = Field(
        description="SHA-256 of what must be equal for two results to be comparable: workload, model, arms, "
        "hardware, software, environment variables.",
        examples=["9f2b6c…"],
    )
    gpu: str | None = Field(description="GPU; null where there is none.", examples=["NVIDIA H200"])
    gpus: int = Field(description="GPUs one arm uses.", examples=[1])
    cpu: str | None = Field(description="CPU of the worker's host.", examples=["Intel(R) Xeon(R) Platinum 8468"])
    vllm: str | None = Field(description="vLLM; all versions where the arms' differ.", examples=["0.25.1"])
    versions: dict[str, str] = Field(
        description="Software the arms ran on.", examples=[{"torch": "2.11.0+cu130", "ray": "2.60.0"}]
    )
    hardware: dict[str, JsonValue] = Field(description="The host, as the worker reports it.")


def fingerprint(
    spec: Experiment,
    resolved: ResolvedExperiment,
    arms: Sequence[ResolvedArm],
    *,
    workload_sha256: str | None = None,
) -> str:
    """Hash of everything but what was measured. `workload_sha256`: of the drawn requests, where prompts are a file."""
    raise NotImplementedError


def environment_report(
    spec: Experiment, resolved: ResolvedExperiment, arms: Sequence[ResolvedArm], *, workload_sha256: str | None = None
) -> EnvironmentReport:
    """The fingerprint and what people want to know of it."""
    raise NotImplementedError
