"""Problems of a submitted document: where they are and what is said about them."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import FieldError, InvalidInput
from app.spec.parsing import MOST_ERRORS, parse_experiment

SPEC: dict[str, Any] = {
    "name": "sync against async",
    "labels": {"suite": "demo"},
    "model": {"preset": "tiny-qwen2"},
    "engine": {"max_num_seqs": 64},
    "workload": {
        "prompts": {"source": "synthetic", "count": 8, "tokens": {"distribution": "fixed", "value": 32}},
        "output": {"stop": "length", "tokens": {"distribution": "uniform", "low": 1, "high": 9}},
        "arrival": {"pattern": "batch"},
    },
    "arms": [
        {"name": "sync", "profile": "vllm-sync"},
        {"name": "async", "profile": "vllm-async", "driver": {"detokenize": True}, "engine": {"seed": None}},
    ],
    "baseline": "sync",
}


def problems(raw: object) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        parse_experiment(raw)
    return {error.pointer: error.detail for error in caught.value.errors}


def changed(pointer: str, value: object) -> dict[str, Any]:
    """SPEC with one value put in."""
    spec = copy.deepcopy(SPEC)
    here: Any = spec
    *path, last = pointer.removeprefix("/").split("/")
    for step in path:
        here = here[int(step)] if isinstance(here, list) else here.setdefault(step, {})
    here[int(last) if isinstance(here, list) else last] = value
    return spec


def test_a_sound_document_becomes_an_experiment() -> None:
    spec = parse_experiment(SPEC)
    assert spec.baseline_name == "sync"
    assert spec.arms[1].engine.model_dump(exclude_unset=True) == {"seed": None}


@pytest.mark.parametrize(
    ("pointer", "value", "said"),
    [
        ("/enigne", {}, "unknown field 'enigne'; did you mean 'engine'?"),
        ("/engine/max_num_seq", 1, "unknown field 'max_num_seq'; did you mean 'max_num_seqs'?"),
        ("/arms/1/driver/output_knd", 1, "unknown field 'output_knd'; did you mean 'output_kind'?"),
        ("/workload/prompts/cuont", 1, "unknown field 'cuont'; did you mean 'count'?"),
        ("/workload/prompts/path", "x", "unknown field 'path'; there are source, count, tokens"),
        ("/sweep/x", 1, "unknown field 'x'; there are none"),
        ("/workload/output/tokens/uniform", 1, "unknown field 'uniform'; there are distribution, low, high"),
        ("/model/revision", "main", "unknown field 'revision'; there are preset"),
        ("/workload/prompts/count", 0, "must be at least 1, not 0"),
        ("/workload/prompts/count", "many", "must be a whole number, not 'many'"),
        ("/workload/prompts/count", 1.5, "must be a whole number, not 1.5"),
        ("/workload/output/tokens/low", 10, None),
        ("/workload/output/tokens/high", [], "must be a whole number, not a list"),
        ("/arms/0/name", 3, "must be text, not 3; put it in quotes"),
        ("/arms/0/name", "", "must not be empty"),
        ("/arms/0/name", "a\nb", "must be printable text on one line"),
        ("/arms/0/environment", "x", "must be an object (keys and values), not 'x'"),
        ("/arms", {}, "must be a list, not an object"),
        ("/arms", [], "must have at least 1, not 0"),
        ("/engine/enforce_eager", "perhaps", "must be true or false, not 'perhaps'"),
        ("/engine/dtype", "bf16", "must be 'auto', 'float16', 'bfloat16' or 'float32', not 'bf16'; did you mean"),
        ("/decision/parity", "strickt", "must be 'flag' or 'strict', not 'strickt'; did you mean 'strict'?"),
        ("/decision/alpha", 0.5, "must be below 0.5, not 0.5"),
        ("/explain", True, "must be false, not true"),
        ("/replicas", 2, "must be 1, not 2"),
        ("/name", "x" * 201, "text here has at most 200 characters, not 201"),
        ("/labels/suite", 1, "must be text, not 1; put it in quotes"),
        ("/arms/0/environment/variables/HOME", "x", "a key here must match ^(VLLM|"),
        ("/workload/prompts/source", "sythetic", "must be one of 'synthetic', 'file', 'inline', not 'sythetic'; did"),
        ("/labels/suite", "a\x00b", "contains a NUL character"),
        ("/model/preset", "\ud800", "contains half a surrogate pair"),
        ("/plan/seed", 10**30, "is too large a number"),
        ("/workload/arrival", {"pattern": "poisson", "rate": float("inf")}, None),
    ],
)
def test_a_problem_is_named_where_it_is(pointer: str, value: object, said: str | None) -> None:
    found = problems(changed(pointer, value))
    if said is None:
        assert len(found) == 1
    else:
        assert found[pointer].startswith(said)
        assert set(found) == {pointer}


@pytest.mark.parametrize(
    ("pointer", "value", "where", "said"),
    [
        ("/workload/output/tokens/low", 10, "/workload/output/tokens", "low (10) is above high (9); swap them"),
        ("/model", {}, "/model", "needs 'preset' or 'id'"),
        ("/model", "tiny-qwen2", "/model", "must be an object (keys and values), not 'tiny-qwen2'"),
        (
            "/workload/output",
            {"value": 5},
            "/workload/output/stop",
            "is required here: 'length' or 'natural' (with max_tokens)",
        ),
        (
            "/workload/output/tokens",
            {"median": 512, "sigma": 0.8},
            "/workload/output/tokens/distribution",
            (
                "is required here: 'fixed' (with value), 'uniform' (with low, high), "
                "'lognormal' (with median, sigma, max) or 'empirical' (with values)"
            ),
        ),
        ("/arms/1", {"name": "x"}, "/arms/1/profile", "is required"),
        ("/labels", {"a/b~c": 1}, "/labels/a~1b~0c", "must be text, not 1; put it in quotes"),
        ("/workload/arrival", {"pattern": "concurrency"}, "/workload/arrival/limit", "is required"),
        (
            "/workload/prompts",
            {"source": "inline", "prompts": [[1, "x"]]},
            "/workload/prompts/prompts/0/1",
            "must be a whole number, not 'x'",
        ),
        (
            "/workload/prompts",
            {"source": "inline", "prompts": [None]},
            "/workload/prompts/prompts/0",
            "must be text or a list, not null",
        ),
    ],
)
def test_pointers_lead_into_the_users_document(pointer: str, value: object, where: str, said: str) -> None:
    assert problems(changed(pointer, value)) == {where: said}


@pytest.mark.parametrize(
    ("pointer", "untagged", "tagged"),
    [
        ("/workload/prompts", {"count": 8}, {"source": "synthetic", "count": 8}),
        ("/workload/prompts", {"path": "a.jsonl", "count": 8}, {"source": "file", "path": "a.jsonl", "count": 8}),
        ("/workload/prompts", {"prompts": ["x"]}, {"source": "inline", "prompts": ["x"]}),
        ("/workload/prompts", {}, {"source": "synthetic"}),
        ("/workload/output", {}, {"stop": "length"}),
        ("/workload/output", {"tokens": {"value": 5}}, {"tokens": {"distribution": "fixed", "value": 5}}),
        ("/workload/output", {"max_tokens": 9}, {"stop": "natural", "max_tokens": 9}),
        ("/workload/output/tokens", {"low": 1, "high": 2}, {"distribution": "uniform", "low": 1, "high": 2}),
        ("/workload/output/tokens", {"values": [3]}, {"distribution": "empirical", "values": [3]}),
        ("/workload/arrival", {}, {"pattern": "batch"}),
        ("/workload/arrival", {"rate": 4}, {"pattern": "poisson", "rate": 4}),
        ("/workload/arrival", {"rate": 4, "limit": 64}, {"pattern": "poisson", "rate": 4, "limit": 64}),
        ("/workload/arrival", {"limit": 64}, {"pattern": "concurrency", "limit": 64}),
        ("/workload/arrival", {"size": 64}, {"pattern": "batch", "size": 64}),
    ],
)
def test_a_tag_may_be_absent_where_the_other_keys_say_it(pointer: str, untagged: object, tagged: object) -> None:
    assert parse_experiment(changed(pointer, untagged)) == parse_experiment(changed(pointer, tagged))


def test_a_tag_that_contradicts_the_other_keys_is_believed() -> None:
    assert problems(changed("/workload/prompts", {"source": "synthetic", "path": "a.jsonl"})) == {
        "/workload/prompts/path": "unknown field 'path'; there are source, count, tokens"
    }


def test_a_mistyped_model_key_is_recognised() -> None:
    assert problems(changed("/model", {"presets": "x"})) == {
        "/model": "needs 'preset' or 'id'",
        "/model/presets": "unknown field 'presets'; did you mean 'preset'?",
    }


@pytest.mark.parametrize("raw", [None, 1, "x", [], [SPEC]])
def test_anything_but_an_object_is_refused(raw: object) -> None:
    assert problems(raw)[""].startswith("must be an object")  # "" is the whole document, "/" a key without a name
    assert problems({"": raw}).keys() == {"/", "/model", "/arms"}


def test_what_is_no_json_is_refused() -> None:
    assert problems({"a": object(), "b": {1: 2}}) == {
        "/a": "a object is no JSON value",
        "/b": "key 1 must be text",
    }


def test_every_problem_is_reported_but_not_without_end() -> None:
    assert len(problems({"model": {}, "arms": [{}], "plan": {"blocks": 0}, "x": 1})) == 5
    found = problems({f"x{index}": index for index in range(10_000)})
    assert len(found) == MOST_ERRORS + 1
    assert found[""] == "has more problems than these 50"


def test_a_cyclic_or_deep_document_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    assert "nested deeper" in next(iter(problems({"x": deep}).values()))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=8), below, max_size=3),
    max_leaves=8,
)
PLACES = [
    *("/name", "/labels", "/labels/suite", "/model", "/model/preset", "/model/id", "/engine", "/engine/seed", "/plan"),
    *("/workload", "/workload/prompts", "/workload/prompts/source", "/workload/prompts/tokens", "/workload/output"),
    *("/workload/output/tokens/distribution", "/workload/arrival/pattern", "/arms", "/arms/0", "/arms/1/driver"),
    *("/arms/0/environment/variables", "/baseline", "/plan/looks", "/decision/service_levels", "/limits/timeout_s"),
]
TAGS = st.sampled_from(["synthetic", "file", "inline", "fixed", "uniform", "poisson", "length", "natural", "x"])


def resolves(pointer: str, document: object) -> bool:
    here = document
    for step in (part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]):
        if isinstance(here, list) and step.isdigit() and int(step) < len(here):
            here = here[int(step)]
        elif isinstance(here, dict) and step in here:
            here = here[step]
        else:
            return False
    return True


def refusal(raw: object) -> tuple[FieldError, ...]:
    """What is wrong with a document; nothing if it is an experiment."""
    try:
        parse_experiment(raw)
    except InvalidInput as refused:
        return refused.errors
    return ()


@given(JSON)
def test_any_document_is_an_experiment_or_refused(raw: object) -> None:
    assert all(error.detail and resolves(error.pointer.rpartition("/")[0], raw) for error in refusal(raw))


@given(st.sampled_from(PLACES), JSON | TAGS | st.dictionaries(TAGS, JSON | TAGS, max_size=3))
def test_a_document_with_one_wrong_value_gets_pointers_that_lead_there(place: str, value: object) -> None:
    raw = changed(place, value)
    assert all(error.detail and resolves(error.pointer.rpartition("/")[0], raw) for error in refusal(raw))
