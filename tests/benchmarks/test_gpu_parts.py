"""The parts of benchmarks.gpu: what they submit, and what fits before a deadline."""

from typing import Any

import pytest

from app.judge.verdict import Verdict
from benchmarks.gpu.budget import COLD_HOST_S, FIRST_SLEEP_S, GRAPH_S, Deadline, estimate_s, fit, swaps
from benchmarks.gpu.parts import HERE, PARTS, Part, changed, experiment_of, plan_of, wants

EVERY_PART = pytest.mark.parametrize("part", PARTS.values(), ids=lambda part: part.name)
KNOWN = {graph for part in PARTS.values() for graph in part.graphs}


def test_every_spec_belongs_to_a_part() -> None:
    assert {path.stem for path in (HERE / "specs").glob("*.yaml")} == {part.of or part.name for part in PARTS.values()}


@EVERY_PART
def test_a_spec_begins_with_why_and_is_an_experiment(part: Part) -> None:
    assert (HERE / "specs" / f"{part.of or part.name}.yaml").read_text().startswith("# ")
    spec = experiment_of(part.spec)
    assert spec.name
    assert not spec.workload.sampling.per_request_seed


@EVERY_PART
def test_a_part_knows_the_time_of_every_arm_and_expects_something_of_every_candidate(part: Part) -> None:
    plan = plan_of(part.spec)
    assert set(part.trial_s) == set(plan.arms)
    assert [expected.candidate for expected in part.expect] == list(plan.arms[1:])


@EVERY_PART
def test_a_part_takes_less_than_nine_minutes_once_the_host_is_warm(part: Part) -> None:
    assert estimate_s(part, plan_of(part.spec), KNOWN) < 540


@EVERY_PART
def test_only_the_planted_limits_are_left_to_vllm(part: Part) -> None:
    engine = part.spec["engine"]
    assert (engine["max_num_seqs"], engine["max_num_batched_tokens"]) == (
        (None, None) if part.name == "c-limits" else (256, 10240)
    )
    assert engine["max_model_len"] == 9216  # a part of the compile cache's key: one graph serves all


@pytest.mark.parametrize(("name", "engines"), [("b32", 2), ("a", 2), ("c-engine", 3), ("c-n", 1), ("c-cache", 1)])
def test_arms_that_differ_in_driver_settings_share_an_engine(name: str, engines: int) -> None:
    assert plan_of(PARTS[name].spec).engine_starts == engines


def test_a_smaller_machine_gets_a_smaller_experiment() -> None:
    spec = experiment_of(changed(PARTS["b32"].spec, model="tiny-qwen2", tokens=16, blocks=2))
    assert spec.model.model_dump() == {"preset": "tiny-qwen2"}
    assert spec.workload.output.model_dump()["tokens"]["value"] == 16
    assert (spec.plan.blocks, spec.engine.max_model_len) == (2, None)


def test_a_planted_null_survives_a_smaller_machine() -> None:
    assert changed(PARTS["c-limits"].spec, model="tiny-qwen2")["engine"]["max_num_seqs"] is None


# --- neighbours ----------------------------------------------------------------------------------------------------

RUNS_DELTA = {"current": {"arm": "delta", "block": 0}}


@pytest.mark.parametrize(
    ("during", "progress", "works"),
    [
        ("delta", RUNS_DELTA, True),
        ("final", RUNS_DELTA, False),
        ("trials", RUNS_DELTA, True),
        ("trials", {"current": None}, False),
        ("trials", None, False),
        ("start", None, True),
    ],
)
def test_a_neighbour_works_when_it_is_told_to(during: str, progress: dict[str, Any] | None, works: bool) -> None:
    assert wants(during, progress) is works


@EVERY_PART
def test_a_neighbour_waits_for_an_arm_that_exists(part: Part) -> None:
    assert part.neighbour is None or part.neighbour.during in ("start", "trials", *plan_of(part.spec).arms)


@EVERY_PART
def test_no_verdict_is_expected_beside_a_neighbour_but_that_there_can_be_none(part: Part) -> None:
    if part.neighbour is not None:
        assert all(expected.because == "another process" for expected in part.expect)
        assert all(set(expected.verdicts) <= {Verdict.CONFOUNDED, Verdict.INCONCLUSIVE} for expected in part.expect)


def test_the_neighbour_parts_fit_into_nine_minutes_together() -> None:
    own = [part for name, part in PARTS.items() if name.startswith("n-")]
    assert sum(estimate_s(part, plan_of(part.spec), KNOWN) for part in own) < 540


# --- time ----------------------------------------------------------------------------------------------------------


def test_two_arms_in_abba_order_swap_once_a_block_and_to_begin_with() -> None:
    # The second engine is awake after the starts: A wakes, B; then A | B B | A A | ...
    assert swaps(plan_of(PARTS["a"].spec)) == 2 + 1 + 6


def test_one_engine_never_swaps() -> None:
    assert swaps(plan_of(PARTS["c-n"].spec)) == 0


def test_the_first_part_on_a_host_pays_for_the_graph_and_the_disk() -> None:
    part, plan = PARTS["b32"], plan_of(PARTS["b32"].spec)
    assert estimate_s(part, plan, ()) - estimate_s(part, plan, KNOWN) == pytest.approx(COLD_HOST_S + GRAPH_S)


def test_only_engines_that_take_turns_sleep() -> None:
    part, plan = PARTS["c-n"], plan_of(PARTS["c-n"].spec)
    two = plan.model_copy(update={"engines": tuple((name,) for name in plan.arms)})
    assert estimate_s(part, two, KNOWN) - estimate_s(part, plan, KNOWN) >= 2 * FIRST_SLEEP_S


def test_a_part_keeps_its_blocks_where_there_is_room() -> None:
    assert fit(PARTS["b32"], PARTS["b32"].spec, KNOWN, 1000.0).spec == PARTS["b32"].spec


def test_a_part_gives_up_blocks_where_there_is_little_room() -> None:
    part = PARTS["b256"]
    room_s = estimate_s(part, plan_of(part.spec), KNOWN) - 30.0
    found = fit(part, part.spec, KNOWN, room_s)
    assert 3 <= found.spec["plan"]["blocks"] < 6
    assert found.estimate_s <= room_s


def test_a_part_without_room_says_what_its_fewest_blocks_would_take() -> None:
    found = fit(PARTS["b32"], PARTS["b32"].spec, KNOWN, 10.0)
    assert found.spec["plan"]["blocks"] == 3
    assert found.estimate_s > 10.0


def test_a_spec_of_fewer_blocks_is_not_made_longer() -> None:
    assert fit(PARTS["b32"], changed(PARTS["b32"].spec, blocks=2), KNOWN, 10.0).spec["plan"]["blocks"] == 2


def test_without_a_deadline_there_is_always_time() -> None:
    assert Deadline.after(None).left_s == float("inf")
    assert 9.0 < Deadline.after(10.0).left_s <= 10.0
