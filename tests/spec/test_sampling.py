"""What a spec may say of sampling, for all samples or a share of them."""

from typing import Any

import pytest

from app.errors import FieldError, InvalidInput
from app.spec.experiment import Experiment
from app.spec.parsing import parse_experiment
from app.spec.resolution import resolve
from app.spec.sampling import Sampling
from app.spec.shares import count_shares
from tests.support.builders import a_spec

NATURAL = {"stop": "natural", "max_tokens": 64}
TEXT = [{"name": "sync", "profile": "vllm-sync", "driver": {"detokenize": True}}]
WITH_N = [{"name": "sync", "profile": "vllm-sync", "driver": {"samples": "n_parameter"}}]


def errors_of(**document: Any) -> list[FieldError]:
    plain: dict[str, Any] = {"model": {"preset": "tiny-qwen2"}, "arms": [{"name": "sync", "profile": "vllm-sync"}]}
    with pytest.raises(InvalidInput) as caught:
        resolve(parse_experiment(plain | document))
    return list(caught.value.errors)


def with_sampling(**sampling: Any) -> dict[str, Any]:
    return {"workload": {"sampling": sampling, "output": NATURAL}}


@pytest.mark.parametrize("name", sorted(Sampling.elsewhere))
def test_what_is_said_elsewhere_is_refused_with_where(name: str) -> None:
    (error,) = errors_of(**with_sampling(**{name: 1}))
    assert error.pointer == f"/workload/sampling/{name}"
    assert error.detail == f"'{name}' is no setting here: {Sampling.elsewhere[name]}"


def test_a_share_is_told_the_same() -> None:
    share = {"share_pct": 50, "sampling": {"logprobs": 1}}
    (error,) = errors_of(workload={"sampling_shares": [share]})
    assert (error.pointer, "driver.logprobs" in error.detail) == (
        "/workload/sampling_shares/0/sampling/logprobs",
        True,
    )


def test_a_wrong_name_gets_the_nearest_right_one() -> None:
    (error,) = errors_of(**with_sampling(presence_penalties=1))
    assert error.detail == "unknown field 'presence_penalties'; did you mean 'presence_penalty'?"


@pytest.mark.parametrize(
    ("said", "detail"),
    [
        ({}, "needs one of json, regex, choice, grammar, json_object, structural_tag, and has none"),
        (
            {"regex": "a", "choice": ["b"]},
            "needs one of json, regex, choice, grammar, json_object, structural_tag, and has regex and choice",
        ),
    ],
)
def test_structured_outputs_have_one_constraint(said: dict[str, Any], detail: str) -> None:
    (error,) = errors_of(**with_sampling(structured_outputs=said))
    assert (error.pointer, error.detail) == ("/workload/sampling/structured_outputs", detail)


def test_a_json_schema_has_an_end() -> None:
    schema = {"description": "x" * 70_000}
    (error,) = errors_of(**with_sampling(structured_outputs={"json": schema}))
    assert error.pointer == "/workload/sampling/structured_outputs/json"
    assert "the most is 65,536" in error.detail


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stop", ["x"]),
        ("stop_token_ids", [300]),
        ("structured_outputs", {"choice": ["yes"]}),
        ("repetition_detection", {"max_pattern_size": 4, "min_count": 3}),
    ],
)
def test_what_ends_samples_goes_with_natural_stops_only(name: str, value: object) -> None:
    document: dict[str, Any] = {"workload": {"sampling": {name: value}}, "arms": TEXT}
    (error,) = errors_of(**document)
    assert error.pointer == f"/workload/sampling/{name}"
    assert "workload.output.stop: length" in error.detail
    document["workload"] |= {"output": NATURAL}
    resolve(parse_experiment({"model": {"preset": "tiny-qwen2"}} | document))


@pytest.mark.parametrize(("name", "value"), [("bad_words", ["x"]), ("structured_outputs", {"regex": "x"})])
def test_what_is_about_text_needs_a_tokenizer(name: str, value: object) -> None:
    (error,) = errors_of(**with_sampling(**{name: value}), model={"preset": "qwen2.5-7b-shape"})
    assert (error.pointer, error.detail) == (
        f"/workload/sampling/{name}",
        "is about text, and qwen2.5-7b-shape has no tokenizer",
    )


@pytest.mark.parametrize(("name", "value"), [("stop", ["x"]), ("skip_special_tokens", False)])
def test_what_needs_the_text_needs_an_arm_that_makes_it(name: str, value: object) -> None:
    (error,) = errors_of(**with_sampling(**{name: value}))
    assert error.pointer == "/arms/0/driver/detokenize"
    assert f"workload.sampling.{name}" in error.detail


@pytest.mark.parametrize(
    ("sampling", "pointer"),
    [
        ({"temperature": 0.001}, "/workload/sampling/temperature"),
        ({"temperature": 0, "top_k": 5}, "/workload/sampling/top_k"),
        ({"include_stop_str_in_output": True}, "/workload/sampling/include_stop_str_in_output"),
        ({"flat_logprobs": True}, "/arms/0/driver/logprobs"),
    ],
)
def test_what_vllm_would_change_or_leave_without_effect_is_refused(sampling: dict[str, Any], pointer: str) -> None:
    assert pointer in [error.pointer for error in errors_of(**with_sampling(**sampling))]


def test_greedy_samples_are_not_asked_for_with_n() -> None:
    (error,) = errors_of(workload={"sampling": {"temperature": 0}}, arms=WITH_N)
    assert error.pointer == "/arms/0/driver/samples"


def test_scored_tokens_are_as_many_as_log_probabilities() -> None:
    arms = [{"name": "sync", "profile": "vllm-sync", "driver": {"logprobs": 1}}]
    (error,) = errors_of(**with_sampling(logprob_token_ids=[300, 301]), arms=arms)
    assert error.pointer == "/arms/0/driver/logprobs"


# --- shares --------------------------------------------------------------------------------------------------------


def with_shares(*shares: tuple[float, dict[str, Any]], **sampling: Any) -> Experiment:
    listed = [{"share_pct": percent, "sampling": own} for percent, own in shares]
    return a_spec(workload={"sampling": sampling, "sampling_shares": listed, "output": NATURAL})


def test_a_share_differs_from_the_rest_in_what_it_says() -> None:
    rest, share = with_shares((25, {"min_p": 0.1}), temperature=0.7).workload.samplings
    assert (rest.temperature, rest.min_p, share.temperature, share.min_p) == (0.7, None, 0.7, 0.1)


def test_a_share_takes_back_what_the_rest_has() -> None:
    rest, share = with_shares((25, {"min_p": None}), min_p=0.1).workload.samplings
    assert (rest.min_p, share.min_p) == (0.1, None)


def test_shares_are_of_everything_and_no_more() -> None:
    shares: list[dict[str, Any]] = [{"share_pct": percent, "sampling": {}} for percent in (60, 41)]
    (error,) = errors_of(workload={"sampling_shares": shares})
    assert (error.pointer, error.detail) == (
        "/workload",
        "sampling_shares are 101 % of the samples together; the most is 100 %",
    )
    thirds = with_shares(*[(100 / 3, {})] * 3)
    resolve(thirds)


@pytest.mark.parametrize(
    ("arms", "detail"),
    [
        (None, "1 % of 8 samples is none of them"),
        (WITH_N, "1 % of 2 prompts, whose samples stay together since an arm asks for them with n is none of them"),
    ],
)
def test_a_share_of_nothing_is_refused(arms: list[dict[str, Any]] | None, detail: str) -> None:
    workload = {"prompts": {"count": 2}, "sampling_shares": [{"share_pct": 1, "sampling": {"min_p": 0.1}}]}
    (error,) = errors_of(workload=workload, **({} if arms is None else {"arms": arms}))
    assert (error.pointer, error.detail) == ("/workload/sampling_shares/0/share_pct", detail)


@pytest.mark.parametrize(
    ("shares", "units", "counts"),
    [((25,), 8, (2,)), ((50, 50), 5, (2, 3)), ((100 / 3,) * 3, 10, (3, 4, 3)), ((10,), 100, (10,)), ((), 4, ())],
)
def test_shares_of_everything_leave_nothing(shares: tuple[float, ...], units: int, counts: tuple[int, ...]) -> None:
    assert count_shares(shares, units) == counts
