"""What ends an experiment early."""

import time

import pytest

from app.errors import Cancelled, EngineDied, EngineStalled, LeaseLost, TimedOut
from app.spec.experiment import Limits
from workers.watch import Pulse, Watch


def test_a_lost_lease_comes_before_everything_else() -> None:
    watch = Watch(Limits())
    watch.cancelled.set()
    watch.lost.set()
    with pytest.raises(LeaseLost):
        watch.check()


def test_a_cancel_request_ends_the_experiment() -> None:
    watch = Watch(Limits())
    watch.cancelled.set()
    with pytest.raises(Cancelled):
        watch.check()


def test_an_experiment_that_outlives_its_limit_times_out() -> None:
    watch = Watch(Limits(timeout_s=0.01))
    time.sleep(0.02)
    with pytest.raises(TimedOut, match=r"limits\.timeout_s"):
        watch.check()


def test_a_draining_worker_lets_the_running_trial_go_on_for_a_while() -> None:
    watch = Watch(Limits())
    watch.drain()
    watch.check()


def test_an_engine_that_yields_no_token_is_stalled() -> None:
    watch = Watch(Limits(stall_timeout_s=0.02))
    watch.begin_trial()
    watch.check_pulse(Pulse(tokens=5), stalls=True)
    time.sleep(0.03)
    with pytest.raises(EngineStalled, match=r"limits\.stall_timeout_s"):
        watch.check_pulse(Pulse(tokens=5), stalls=True)


def test_an_engine_that_goes_on_is_not_stalled() -> None:
    watch = Watch(Limits(stall_timeout_s=0.02))
    watch.begin_trial()
    watch.check_pulse(Pulse(tokens=5), stalls=True)
    time.sleep(0.03)
    watch.check_pulse(Pulse(tokens=6), stalls=True)


def test_the_stall_clock_starts_anew_with_every_trial() -> None:
    watch = Watch(Limits(stall_timeout_s=0.02))
    watch.check_pulse(Pulse(tokens=5), stalls=True)
    time.sleep(0.03)
    watch.begin_trial()
    watch.check_pulse(Pulse(tokens=5), stalls=True)


def test_a_process_that_is_gone_is_an_engine_that_died() -> None:
    with pytest.raises(EngineDied, match="is gone"):
        Watch(Limits()).check_pulse(Pulse(tokens=5, dead="the engine's process 7 is gone"), stalls=False)


def test_a_call_that_generates_nothing_does_not_stall() -> None:
    watch = Watch(Limits(stall_timeout_s=0.001))
    watch.check_pulse(Pulse(tokens=5), stalls=False)
    time.sleep(0.01)
    watch.check_pulse(Pulse(tokens=5), stalls=False)
