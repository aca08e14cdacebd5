"""Did the arms do the same work?"""

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.judge.fairness import Fairness, check_fairness
from app.measure.work import Work, sum_work
from tests.support.builders import a_record, some_work

ARMS = ("sync", "async")


def compared(sync: Work, other: Work) -> Fairness:
    return check_fairness({0: {"sync": sync, "async": other}}, ARMS)


def what_differs(fairness: Fairness) -> list[str]:
    return [difference.what for difference in fairness.differences]


# --- the work of a trial -------------------------------------------------------------------------------------------


def test_work_adds_up_what_the_samples_did() -> None:
    work = sum_work(
        [
            a_record(prompt_tokens=5, output_tokens=3, cached_tokens=2),
            a_record(sample_index=1, prompt_tokens=5, output_tokens=4, cached_tokens=0, finish_reason="stop"),
        ]
    )
    assert (work.samples, work.prompt_tokens, work.output_tokens, work.cached_tokens) == (2, 10, 7, 2)
    assert work.finish_reasons == {"length": 1, "stop": 1}


def test_cached_tokens_are_unknown_where_one_sample_does_not_say() -> None:
    assert sum_work([a_record(), a_record(sample_index=1, cached_tokens=None)]).cached_tokens is None


def test_a_sample_without_a_finish_reason_is_counted_as_unknown() -> None:
    assert sum_work([a_record(finish_reason=None)]).finish_reasons == {"unknown": 1}


def test_outputs_are_kept_as_8_bytes_each_in_the_samples_order() -> None:
    first, second = hashlib.sha256(b"0-0").digest(), hashlib.sha256(b"0-1").digest()
    assert sum_work([a_record(sample_index=1), a_record(sample_index=0)]).output_hashes == first[:8] + second[:8]


@given(st.permutations(range(5)))
def test_work_does_not_depend_on_the_order_of_records(order: list[int]) -> None:
    records = [a_record(prompt_index=index % 2, sample_index=index, output_tokens=index) for index in range(5)]
    assert sum_work([records[index] for index in order]) == sum_work(records)


@pytest.mark.parametrize("change", [{"prompt_tokens": 9}, {"output_tokens": 9}, {"finish_reason": "stop"}])
def test_the_shape_tells_samples_apart_by_what_they_took(change: dict[str, Any]) -> None:
    assert sum_work([a_record(**change)]).shape_sha256 != sum_work([a_record()]).shape_sha256


def test_the_shape_does_not_depend_on_times() -> None:
    assert sum_work([a_record(start=5.0)]).shape_sha256 == sum_work([a_record()]).shape_sha256


# --- arms against each other ---------------------------------------------------------------------------------------


def test_equal_work_is_equal() -> None:
    fairness = compared(some_work(), some_work())
    assert fairness.equal
    assert fairness.output_tokens == {"sync": 40, "async": 40}
    assert fairness.finish_reasons == {"sync": {"length": 4}, "async": {"length": 4}}
    assert fairness.identical_outputs_pct == 100.0


@pytest.mark.parametrize("what", ["samples", "prompt_tokens", "output_tokens", "cached_tokens"])
def test_one_arm_that_counts_more_is_named_with_both_totals(what: str) -> None:
    fairness = compared(some_work(), some_work(**{what: 41}))
    (difference,) = fairness.differences
    assert not fairness.equal
    assert difference.what == what
    assert difference.values["async"] == "41"
    assert difference.blocks == (0,)


def test_other_finish_reasons_are_other_work() -> None:
    fairness = compared(some_work(), some_work(finish_reasons={"length": 3, "stop": 1}))
    assert fairness.differences[0].values == {"sync": "4 length", "async": "3 length, 1 stop"}


def test_equal_totals_with_another_shape_are_other_work() -> None:
    assert what_differs(compared(some_work(), some_work(shape_sha256="6b" * 32))) == ["shape"]


def test_a_shape_that_follows_from_other_counts_is_not_told_twice() -> None:
    assert what_differs(compared(some_work(), some_work(output_tokens=41, shape_sha256="6b" * 32))) == ["output_tokens"]


def test_other_tokens_of_the_same_number_are_the_same_work() -> None:
    fairness = compared(some_work(), some_work(output_hashes=bytes(range(24)) + bytes(8)))
    assert fairness.equal
    assert fairness.identical_outputs_pct == 75.0


def test_what_an_engine_does_not_report_cannot_be_unequal() -> None:
    fairness = compared(some_work(cached_tokens=None), some_work(cached_tokens=12))
    assert fairness.equal
    assert fairness.cached_tokens == {"sync": None, "async": 12}


def test_only_blocks_that_every_arm_finished_are_looked_at() -> None:
    blocks = {0: {"sync": some_work(), "async": some_work()}, 1: {"sync": some_work(output_tokens=99)}}
    fairness = check_fairness(blocks, ARMS)
    assert fairness.equal
    assert fairness.blocks == 1
    assert fairness.output_tokens["sync"] == 40


def test_differences_name_their_blocks() -> None:
    blocks = {
        number: {"sync": some_work(), "async": some_work(output_tokens=40 + number % 2)} for number in (3, 1, 0, 2)
    }
    assert check_fairness(blocks, ARMS).differences[0].blocks == (1, 3)


def test_three_arms_are_equal_only_if_all_are() -> None:
    blocks = {0: {"a": some_work(), "b": some_work(), "c": some_work(prompt_tokens=1)}}
    assert check_fairness(blocks, ("a", "b")).equal
    assert not check_fairness(blocks, ("a", "b", "c")).equal


def test_without_a_block_nothing_is_unequal_and_no_share_is_claimed() -> None:
    fairness = check_fairness({}, ARMS)
    assert fairness.equal
    assert fairness.blocks == 0
    assert fairness.identical_outputs_pct is None


def test_another_number_of_samples_has_no_outputs_to_match() -> None:
    fairness = compared(some_work(), some_work(samples=3, output_hashes=bytes(range(24))))
    assert fairness.identical_outputs_pct == 0.0


def test_a_few_cached_tokens_more_are_tolerated_and_told() -> None:
    fairness = check_fairness(
        {0: {"sync": some_work(prompt_tokens=1000), "async": some_work(prompt_tokens=1000, cached_tokens=10)}}, ARMS
    )
    assert fairness.equal
    assert [one.what for one in fairness.tolerated] == ["cached_tokens"]
    more = {0: {"sync": some_work(prompt_tokens=1000), "async": some_work(prompt_tokens=1000, cached_tokens=11)}}
    assert not check_fairness(more, ARMS).equal


def drawn(rng: np.random.Generator, blocks: int = 6, longer: float = 1.0) -> dict[int, dict[str, Work]]:
    """Blocks of 32 samples each that end by themselves, the second arm's `longer` on average."""
    return {
        block: {
            arm: some_work(
                output_tokens=int(np.sum(scale * rng.lognormal(6, 0.8, 32))),
                finish_reasons={"stop": (cut := int(rng.integers(20, 32))), "length": 32 - cut},
                shape_sha256=f"{block}{arm}",
            )
            for arm, scale in (("sync", 1.0), ("async", longer))
        }
        for block in range(blocks)
    }


def test_lengths_that_are_drawn_are_called_unequal_in_1_percent() -> None:
    rng = np.random.default_rng(3)
    unequal = [not check_fairness(drawn(rng), ARMS, natural=True).equal for _ in range(1000)]
    assert sum(unequal) <= 20  # three standard errors above 10


def test_lengths_that_an_arm_makes_longer_are_unequal() -> None:
    rng = np.random.default_rng(4)
    unequal = [not check_fairness(drawn(rng, longer=2.0), ARMS, natural=True).equal for _ in range(100)]
    assert sum(unequal) > 90


def test_forced_lengths_are_held_to_the_token() -> None:
    rng = np.random.default_rng(5)
    assert not check_fairness(drawn(rng), ARMS).equal


def test_natural_stops_excuse_neither_other_prompts_nor_samples_that_were_aborted() -> None:
    for change in ({"prompt_tokens": 33}, {"samples": 3}, {"finish_reasons": {"abort": 1, "stop": 3}}):
        blocks = {block: {"sync": some_work(), "async": some_work(**change)} for block in range(3)}
        assert not check_fairness(blocks, ARMS, natural=True).equal
