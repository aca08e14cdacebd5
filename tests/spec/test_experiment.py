"""What the spec says of itself, and that it can be written down and read back."""

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, TypeAdapter

from app.spec import engine as engine_module
from app.spec import experiment as experiment_module
from app.spec import sampling as sampling_module
from app.spec import workload as workload_module
from app.spec.engine import HubModel, PresetModel
from app.spec.experiment import Arm, Experiment
from app.spec.workload import (
    Arrival,
    BatchArrival,
    ConcurrencyArrival,
    ConstantArrival,
    Empirical,
    FilePrompts,
    Fixed,
    ForcedOutput,
    InlinePrompts,
    LogNormal,
    NaturalOutput,
    Output,
    PoissonArrival,
    Prompts,
    SyntheticPrompts,
    TokenDistribution,
    Uniform,
    Workload,
)

UNITS = {"_s": (", s", "seconds"), "_ms": (", ms",), "_pct": ("percent",), "_pct_per_slot": ("percent",)}
PROMPTS: list[Prompts] = [SyntheticPrompts(), SyntheticPrompts(count=3), FilePrompts(path="a.jsonl")]
PROMPTS += [FilePrompts(path="a.parquet", count=3), InlinePrompts(prompts=("x", (1, 2)))]
LENGTHS: list[TokenDistribution] = [Fixed(value=5), Uniform(low=1, high=2), Empirical(values=(3, 9))]
LENGTHS += [LogNormal(median=8, sigma=0.5, max=64)]
OUTPUTS: list[Output] = [ForcedOutput(), NaturalOutput(max_tokens=9), *(ForcedOutput(tokens=one) for one in LENGTHS)]
ARRIVALS: list[Arrival] = [BatchArrival(), BatchArrival(size=8), PoissonArrival(rate=4.0)]
ARRIVALS += [ConstantArrival(pattern="constant", rate=4.0, limit=8), ConcurrencyArrival(limit=64)]
WORKLOADS = [
    Workload(),
    *(Workload(prompts=one) for one in PROMPTS),
    *(Workload(prompts=SyntheticPrompts(tokens=one)) for one in LENGTHS),
    *(Workload(output=one) for one in OUTPUTS),
    *(Workload(arrival=one) for one in ARRIVALS),
]


def properties() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field a user may set, with its schema; what a reference says of itself counts for the field."""
    schema = Experiment.model_json_schema()
    for name, model in {"Experiment": schema, **schema["$defs"]}.items():
        for key, field in model.get("properties", {}).items():
            target = schema["$defs"].get(field.get("$ref", "").removeprefix("#/$defs/"), {})
            yield f"{name}.{key}", {"description": target.get("description"), **field}


def models() -> list[type[BaseModel]]:
    found = [
        one
        for module in (engine_module, experiment_module, sampling_module, workload_module)
        for one in vars(module).values()
    ]
    return [one for one in found if isinstance(one, type) and issubclass(one, BaseModel)]


def test_every_field_is_described_with_an_example() -> None:
    assert [name for name, field in properties() if not field["description"] or not field.get("examples")] == []


def test_every_field_with_a_unit_in_its_name_says_it_in_words() -> None:
    for name, field in properties():
        for suffix, words in UNITS.items():
            if name.endswith(suffix):
                assert any(word in field["description"] for word in words), name


def test_every_example_is_right() -> None:
    for model in models():
        for name, field in model.model_fields.items():
            kind: Any = Annotated[field.annotation, field]
            for example in field.examples or ():
                assert TypeAdapter(kind).validate_python(example) is not None, f"{model.__name__}.{name}"


@pytest.mark.parametrize("workload", WORKLOADS, ids=repr)
@pytest.mark.parametrize("model", [PresetModel(preset="tiny-qwen2"), HubModel(id="a/b")], ids=repr)
def test_a_spec_built_of_its_parts_is_read_back_as_it_was(model: PresetModel | HubModel, workload: Workload) -> None:
    spec = Experiment(model=model, workload=workload, arms=(Arm(name="sync", profile="vllm-sync"),))
    assert Experiment.model_validate(spec.model_dump(mode="json", exclude_unset=True)) == spec


def test_every_member_of_a_union_was_read_back() -> None:
    tried = {type(one).__name__ for one in (*PROMPTS, *LENGTHS, *OUTPUTS, *ARRIVALS)}
    schema = Experiment.model_json_schema()
    unions = [field for model in schema["$defs"].values() for field in model.get("properties", {}).values()]
    members = {one["$ref"].rpartition("/")[2] for field in unions for one in field.get("oneOf", ())}
    assert members == tried
