"""Whom each router picks: the tables of verl's versions, and what holds of any calls."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.routing import Router, Routing, make_policy
from app.routing.gates import Gate, PoolGate, SessionGate
from app.routing.in_flight import Ties
from app.routing.policy import Ask, Policy, find_part

EVERY_ROUTER = pytest.mark.parametrize("router", Router)


def ask_batch(samples: int, agent_workers: int = 8, batch: int = 0) -> list[Ask]:
    """One batch of one-turn samples, as verl deals it to its agent workers."""
    return [
        Ask(f"{batch}-{place}", find_part(place, samples, agent_workers), place, samples) for place in range(samples)
    ]


def spread(policy: Policy, asks: Sequence[Ask], replicas: int = 8) -> list[int]:
    """Samples by replica, all in flight together and then done."""
    picked = [policy.pick(ask) for ask in asks]
    for ask, replica in zip(asks, picked, strict=True):
        policy.release(ask, replica)
    counts = Counter(picked)
    return [counts[replica] for replica in range(replicas)]


@pytest.mark.parametrize(
    ("samples", "loads"),
    [
        (32, [8, 8, 8, 8, 0, 0, 0, 0]),
        (64, [8] * 8),
        (96, [16, 16, 16, 16, 8, 8, 8, 8]),
        (128, [16] * 8),
        (256, [32] * 8),
    ],
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_verl_0_6_1_gives_every_agent_worker_the_same_replicas_first(samples: int, loads: list[int], seed: int) -> None:
    policy = make_policy(Routing(Router.PER_WORKER_HASH, seed=seed), 8)
    assert sorted(spread(policy, ask_batch(samples)), reverse=True) == loads


def test_verl_0_6_1_keeps_the_other_half_busy_in_the_next_step() -> None:
    policy = make_policy(Routing(Router.PER_WORKER_HASH), 8)
    steps = [spread(policy, ask_batch(32, batch=batch)) for batch in range(4)]
    assert steps[0] == steps[2] != steps[1] == steps[3]
    assert [one + other for one, other in zip(steps[0], steps[1], strict=True)] == [8] * 8


def test_verl_0_7_0_draws_an_order_for_every_agent_worker() -> None:
    spreads = [
        spread(make_policy(Routing(Router.PER_WORKER_RANDOM, seed=seed), 8), ask_batch(32)) for seed in range(200)
    ]
    assert all(sum(loads) == 32 and max(loads) <= 8 for loads in spreads)
    assert len({tuple(loads) for loads in spreads}) > 100
    # Each of 8 workers hits a replica with its 4 samples in half of all orders: the fullest of 8 has about 6.
    assert 5.5 < sum(map(max, spreads)) / len(spreads) < 6.5
    assert spread(make_policy(Routing(Router.PER_WORKER_RANDOM), 8), ask_batch(64)) == [8] * 8


@pytest.mark.parametrize(("samples", "loads"), [(32, [4] * 8), (64, [8] * 8), (30, [4, 4, 4, 4, 4, 4, 3, 3])])
@pytest.mark.parametrize("router", [Router.EVEN, Router.LEAST_IN_FLIGHT, Router.STICKY])
def test_a_batch_that_comes_at_once_is_split_evenly(router: Router, samples: int, loads: list[int]) -> None:
    assert spread(make_policy(Routing(router), 8), ask_batch(samples)) == loads


def test_sync_verl_keeps_neighbours_together() -> None:
    policy = make_policy(Routing(Router.EVEN), 4)
    assert [policy.pick(ask) for ask in ask_batch(10)] == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]


def test_of_equally_free_replicas_the_first_is_picked_or_any() -> None:
    def first_picks(ties: Ties) -> set[int]:
        return {
            make_policy(Routing(Router.LEAST_IN_FLIGHT, ties=ties, seed=seed), 8).pick(Ask("a")) for seed in range(99)
        }

    assert first_picks(Ties.FIRST) == {0}
    assert first_picks(Ties.RANDOM) == set(range(8))


def test_the_least_in_flight_is_who_was_released() -> None:
    policy = make_policy(Routing(Router.LEAST_IN_FLIGHT), 3)
    asks = ask_batch(6)
    assert [policy.pick(ask) for ask in asks] == [0, 1, 2, 0, 1, 2]
    policy.release(asks[2], 2)
    assert policy.pick(Ask("new")) == 2


def test_a_replica_without_calls_cannot_be_released() -> None:
    policy = make_policy(Routing(Router.LEAST_IN_FLIGHT), 2)
    with pytest.raises(ValueError, match="replica 1 was released, but has no call in flight"):
        policy.release(Ask("a"), 1)


def test_a_known_session_goes_where_it_went_although_others_are_free() -> None:
    policy = make_policy(Routing(Router.STICKY), 4)
    replica = policy.pick(Ask("conversation"))
    for _ in range(100):
        assert policy.pick(Ask("conversation")) == replica


@pytest.mark.parametrize(
    ("gate", "picked"),
    [
        (SessionGate(margin=2), [0, 0, 0, 1, 1, 1, 2]),
        # While the pool is imbalanced, every turn goes to who is least loaded then.
        (PoolGate(most_apart=4, most_times=1.5), [0, 0, 0, 0, 0, 1, 2]),
    ],
)
def test_a_gate_lets_a_session_leave(gate: Gate, picked: list[int]) -> None:
    policy = make_policy(Routing(Router.STICKY, gate=gate), 4)
    assert [policy.pick(Ask("conversation")) for _ in picked] == picked


def test_a_busy_pool_is_not_imbalanced_by_a_few() -> None:
    gate = PoolGate(most_apart=4, most_times=1.5)
    assert gate.holds([100, 106], replica=1)
    assert not gate.holds([2, 8], replica=1)
    assert gate.holds([2, 8, 2], replica=2)  # who is least loaded has nowhere to go


def prompt(beginning: int, length: int = 64) -> tuple[int, ...]:
    return (beginning,) * length


def test_samples_of_a_prompt_go_where_it_is_known() -> None:
    policy = make_policy(Routing(Router.PREFIX_AWARE), 4)
    picked = [policy.pick(Ask(f"{index}", prompt_token_ids=prompt(index // 16))) for index in range(64)]
    assert picked == [replica for replica in range(4) for _ in range(16)]


def test_a_beginning_that_is_less_than_half_of_a_prompt_is_no_reason() -> None:
    policy = make_policy(Routing(Router.PREFIX_AWARE), 4)
    system = prompt(1, 32)
    picked = [policy.pick(Ask(f"{index}", prompt_token_ids=system + prompt(100 + index, 64))) for index in range(4)]
    assert picked == [0, 1, 2, 3]
    assert policy.pick(Ask("5", prompt_token_ids=system + prompt(102, 64) + prompt(9, 16))) == 2


def test_prompts_shorter_than_a_block_go_to_the_least_in_flight() -> None:
    policy = make_policy(Routing(Router.PREFIX_AWARE), 3)
    assert [policy.pick(Ask(f"{index}", prompt_token_ids=prompt(7, 15))) for index in range(4)] == [0, 1, 2, 0]


def test_a_gate_spreads_a_prompt_that_everybody_asks_for() -> None:
    policy = make_policy(Routing(Router.PREFIX_AWARE, gate=SessionGate(margin=4)), 4)
    asks = [Ask(f"{index}", prompt_token_ids=prompt(1)) for index in range(64)]
    loads = spread(policy, asks, 4)
    assert max(loads) - min(loads) <= 5


def test_consistent_hashing_moves_few_sessions_to_a_new_replica_and_none_between_old_ones() -> None:
    sessions = [Ask(f"conversation {index}") for index in range(4000)]
    before, after = (make_policy(Routing(Router.CONSISTENT_HASH), replicas) for replicas in (8, 9))
    moves = [(before.pick(ask), after.pick(ask)) for ask in sessions if before.pick(ask) != after.pick(ask)]
    assert {new for _, new in moves} == {8}
    assert 0.5 / 9 < len(moves) / len(sessions) < 1.5 / 9


def test_consistent_hashing_gives_every_replica_its_share_of_sessions() -> None:
    loads = spread(make_policy(Routing(Router.CONSISTENT_HASH), 8), [Ask(f"{index}") for index in range(8000)])
    assert 700 < min(loads) <= max(loads) < 1300


def test_settings_a_router_has_not_are_refused() -> None:
    with pytest.raises(ValueError, match="the router even sticks to no replica"):
        Routing(Router.EVEN, gate=PoolGate())
    with pytest.raises(ValueError, match="the router prefix_aware does not look for the least in flight"):
        Routing(Router.PREFIX_AWARE, ties=Ties.RANDOM)
    with pytest.raises(ValueError, match="a router needs at least one replica, not 0"):
        make_policy(Routing(Router.EVEN), 0)


calls = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 3), st.booleans()), min_size=1, max_size=200
)  # session, agent worker, whether a call ends after it


def play(policy: Policy, plays: Sequence[tuple[int, int, bool]]) -> tuple[list[tuple[Ask, int]], list[int]]:
    """All picks, and what was in flight on each of 5 replicas at the end by our own count."""
    picks: list[tuple[Ask, int]] = []
    running: list[tuple[Ask, int]] = []
    for place, (session, agent_worker, ends) in enumerate(plays):
        ask = Ask(f"{session}", agent_worker, place, len(plays), prompt(session))
        replica = policy.pick(ask)
        picks.append((ask, replica))
        running.append((ask, replica))
        if ends:
            policy.release(*running.pop(0))
    return picks, [sum(replica == each for _, replica in running) for each in range(5)]


@EVERY_ROUTER
@given(plays=calls, seed=st.integers(0, 99))
def test_every_call_gets_one_replica_and_the_same_one_again(
    router: Router, plays: list[tuple[int, int, bool]], seed: int
) -> None:
    picks, _ = play(make_policy(Routing(router, seed=seed), 5), plays)
    assert len(picks) == len(plays)
    assert all(0 <= replica < 5 for _, replica in picks)
    assert picks == play(make_policy(Routing(router, seed=seed), 5), plays)[0]


@pytest.mark.parametrize("router", [Router.STICKY, Router.CONSISTENT_HASH, Router.PREFIX_AWARE])
@given(plays=calls)
def test_a_session_never_moves_without_a_gate(router: Router, plays: list[tuple[int, int, bool]]) -> None:
    picks, _ = play(make_policy(Routing(router), 5), plays)
    assert len({(ask.session, replica) for ask, replica in picks}) == len({ask.session for ask, _ in picks})


@pytest.mark.parametrize("router", [Router.PER_WORKER_HASH, Router.PER_WORKER_RANDOM])
@given(plays=calls)
def test_a_session_never_moves_within_its_agent_worker(router: Router, plays: list[tuple[int, int, bool]]) -> None:
    picks, _ = play(make_policy(Routing(router), 5), plays)
    known = {(ask.session, ask.agent_worker) for ask, _ in picks}
    assert len({(ask.session, ask.agent_worker, replica) for ask, replica in picks}) == len(known)


@pytest.mark.parametrize("router", [Router.STICKY, Router.PREFIX_AWARE])
@given(plays=calls, margin=st.integers(0, 5))
def test_a_gate_bounds_what_sticking_piles_up(router: Router, plays: list[tuple[int, int, bool]], margin: int) -> None:
    policy = make_policy(Routing(router, gate=SessionGate(margin)), 5)
    asks = [Ask(f"{session}", prompt_token_ids=prompt(session)) for session, _, _ in plays]
    in_flight = [0] * 5
    for ask in asks:
        in_flight[policy.pick(ask)] += 1
        # A new prompt goes to whom has the fewest blocks, busy or not; a known one is held back by the gate.
        if router is Router.STICKY:
            assert max(in_flight) - min(in_flight) <= margin + 1
    for ask in asks:
        known = policy.pick(ask)
        assert in_flight[known] <= min(in_flight) + margin
        in_flight[known] += 1


@given(plays=calls)
def test_without_a_second_turn_sticky_is_the_least_in_flight(plays: list[tuple[int, int, bool]]) -> None:
    new = [(number, agent_worker, ends) for number, (_, agent_worker, ends) in enumerate(plays)]
    picks = [play(make_policy(Routing(router), 5), new)[0] for router in (Router.STICKY, Router.LEAST_IN_FLIGHT)]
    assert picks[0] == picks[1]


@given(plays=calls)
def test_what_is_in_flight_is_known_of_all_agent_workers(plays: list[tuple[int, int, bool]]) -> None:
    policy = make_policy(Routing(Router.LEAST_IN_FLIGHT), 5)
    _, in_flight = play(policy, plays)
    assert policy.pick(Ask("next")) == in_flight.index(min(in_flight))


@given(size=st.integers(1, 300), parts=st.integers(1, 20))
def test_parts_are_contiguous_and_as_long_as_they_can_be(size: int, parts: int) -> None:
    found = [find_part(place, size, parts) for place in range(size)]
    assert found == sorted(found)
    lengths = [found.count(part) for part in range(parts)]
    assert max(lengths) - min(lengths) <= 1
    assert lengths == sorted(lengths, reverse=True)
