"""How work was spread over replicas."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.measure.replicas import ReplicaCall, ReplicaLoad, count_running, measure_spread


def test_a_replica_without_work_counts_in_the_mean() -> None:
    calls = [ReplicaCall(0, 0.0, 4.0, 30), ReplicaCall(1, 0.0, 2.0, 10), ReplicaCall(0, 1.0, 3.0, 20)]
    spread = measure_spread(calls, replicas=3)
    assert spread.loads == (ReplicaLoad(0, 2, 50, 0.0), ReplicaLoad(1, 1, 10, 2.0), ReplicaLoad(2, 0, 0, 4.0))
    assert spread.sample_imbalance == 2.0
    assert spread.token_imbalance == 2.5


def test_the_imbalance_of_verl_0_6_1_is_two() -> None:
    calls = [ReplicaCall(sample % 4, 0.0, 1.0, 100) for sample in range(32)]
    assert measure_spread(calls, replicas=8).sample_imbalance == 2.0


def test_idle_is_before_between_and_after_calls() -> None:
    calls = [ReplicaCall(0, 0.0, 10.0, 1), ReplicaCall(1, 1.0, 2.0, 1), ReplicaCall(1, 5.0, 8.0, 1)]
    assert measure_spread(calls, replicas=2).loads[1].idle_s == 6.0


def test_nothing_is_neither_even_nor_uneven() -> None:
    spread = measure_spread([], replicas=2)
    assert (spread.sample_imbalance, spread.token_imbalance) == (None, None)
    assert [load.idle_s for load in spread.loads] == [0.0, 0.0]


def test_a_call_on_no_replica_is_an_error() -> None:
    with pytest.raises(ValueError, match="calls ran on replica 2, of 2"):
        measure_spread([ReplicaCall(2, 0.0, 1.0, 1)], replicas=2)


def test_running_calls_make_a_staircase() -> None:
    calls = [ReplicaCall(0, 0.0, 2.0, 1), ReplicaCall(0, 1.0, 3.0, 1), ReplicaCall(1, 2.0, 4.0, 1)]
    assert count_running(calls) == ((0.0, 1), (1.0, 2), (2.0, 2), (3.0, 1), (4.0, 0))


calls = st.lists(
    st.builds(
        lambda replica, start, length, tokens: ReplicaCall(replica, start, start + length, tokens),
        st.integers(0, 3),
        st.integers(0, 50).map(float),
        st.integers(0, 20).map(float),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=30,
)


@given(calls=calls)
def test_no_work_is_lost_and_nobody_idles_longer_than_the_trial(calls: list[ReplicaCall]) -> None:
    spread = measure_spread(calls, replicas=4)
    span_s = max(call.end_s for call in calls) - min(call.start_s for call in calls)
    assert sum(load.samples for load in spread.loads) == len(calls)
    assert sum(load.output_tokens for load in spread.loads) == sum(call.output_tokens for call in calls)
    assert all(0.0 <= load.idle_s <= span_s for load in spread.loads)
    assert spread.token_imbalance is not None
    assert 1.0 <= spread.token_imbalance <= 4.0


@given(calls=calls)
def test_idle_is_when_the_staircase_is_at_zero(calls: list[ReplicaCall]) -> None:
    mine = [call for call in calls if call.replica == calls[0].replica]
    stairs = count_running(mine)
    assert stairs[-1][1] == 0
    busy_s = sum(after - at for (at, running), (after, _) in pairwise(stairs) if running)
    span_s = max(call.end_s for call in calls) - min(call.start_s for call in calls)
    assert measure_spread(calls, 4).loads[calls[0].replica].idle_s == pytest.approx(span_s - busy_s)
