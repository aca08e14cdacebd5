"""The experiments to run: `parts.yaml` says what each is for, `specs/` holds what is submitted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, TypeAdapter

from app.judge.verdict import Verdict
from app.spec.document import load_yaml
from app.spec.experiment import Experiment
from app.spec.frozen import SpecModel
from app.spec.parsing import parse_experiment
from app.spec.plan import TrialPlan, plan_trials
from app.spec.resolution import resolve

HERE = Path(__file__).parent


class Bare(SpecModel):
    """What scripts without the service read."""

    change_pct: float = Field(description="Of the time a trial takes, percent.")
    of: str = Field(description="What was run.")


class Expected(SpecModel):
    """What the service must say of one candidate."""

    candidate: str
    verdicts: tuple[Verdict, ...] = Field(description="Any of these.")
    because: str | None = Field(None, description="Must occur in a reason of the verdict.")
    setting: str | None = Field(None, description="Must be the declared cause of a difference, and nothing undeclared.")
    bare: Bare | None = None


FROM_THE_START = "start"  # of a neighbour: before any engine does
DURING_TRIALS = "trials"


class Neighbour(SpecModel):
    """A process that works on the GPU meanwhile and is none of the service's."""

    does: Literal["matmuls", "copies"] = Field(description="Kernels it runs.")
    during: str = Field(description="`start`: before any engine starts and ever after; `trials`; or an arm.")


def wants(during: str, progress: Mapping[str, Any] | None) -> bool:
    """Whether a neighbour works now, by the progress of the experiment that runs."""
    if during == FROM_THE_START:
        return True
    current = None if progress is None else progress["current"]
    return current is not None and during in (DURING_TRIALS, current["arm"])


class Part(SpecModel):
    """One experiment."""

    name: str
    about: str
    trial_s: dict[str, float] = Field(description="Seconds a trial of each arm takes, for the estimate.")
    graphs: tuple[str, ...] = Field(description="Graphs vLLM compiles for it; the first part to need one pays for it.")
    expect: tuple[Expected, ...]
    of: str | None = Field(None, description="The spec it shares with others; one of its own name where there is none.")
    neighbour: Neighbour | None = None

    @property
    def spec(self) -> dict[str, Any]:
        """What is submitted."""
        document = load_yaml((HERE / "specs" / f"{self.of or self.name}.yaml").read_text()).value
        assert isinstance(document, dict)  # noqa: S101 - our own file
        return document


PARTS: dict[str, Part] = {
    part.name: part
    for part in TypeAdapter(tuple[Part, ...]).validate_python(load_yaml((HERE / "parts.yaml").read_text()).value)
}


def changed(
    spec: dict[str, Any], *, model: str | None = None, tokens: int | None = None, blocks: int | None = None
) -> dict[str, Any]:
    """The spec for a smaller machine or less time; engine settings are those of the model it was written for."""
    if model is not None:
        limits = {key: spec["engine"][key] for key in ("max_num_seqs", "max_num_batched_tokens")}
        spec = spec | {"model": {"preset": model}, "engine": limits}
    if tokens is not None:
        output = spec["workload"]["output"] | {"tokens": {"distribution": "fixed", "value": tokens}}
        spec = spec | {"workload": spec["workload"] | {"output": output}}
    if blocks is not None:
        spec = spec | {"plan": spec["plan"] | {"blocks": blocks}}
    return spec


def plan_of(spec: dict[str, Any]) -> TrialPlan:
    """What the service will run for it."""
    experiment = experiment_of(spec)
    return plan_trials(experiment, resolve(experiment))


def experiment_of(spec: dict[str, Any]) -> Experiment:
    """The spec, checked."""
    return parse_experiment(spec)
