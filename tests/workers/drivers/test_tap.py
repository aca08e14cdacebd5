"""What a tap keeps of vLLM's statistics."""

import warnings
from types import SimpleNamespace

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what vLLM imports
    from vllm.v1.metrics.stats import IterationStats, SchedulerStats
    from vllm.v1.spec_decode.metrics import SpecDecodingStats

    from workers.drivers.tap import Tap, make_tap


def test_a_plain_engine_s_tap_knows_no_drafts() -> None:
    tap = make_tap(SimpleNamespace(speculative_config=None))
    tap.record(SchedulerStats(num_running_reqs=3), IterationStats())
    (sample,) = tap.timeline(0.0)
    assert type(tap) is Tap
    assert (sample.running, sample.drafts, sample.accepted_tokens) == (3, None, None)


def test_a_drafting_engine_s_tap_keeps_what_was_accepted_step_by_step() -> None:
    tap = make_tap(SimpleNamespace(speculative_config=object()))
    drafted = SpecDecodingStats(3, num_drafts=2, num_draft_tokens=6, num_accepted_tokens=4)
    tap.record(SchedulerStats(num_running_reqs=1))
    tap.record(None)
    tap.record(scheduler_stats=SchedulerStats(num_running_reqs=2, spec_decoding_stats=drafted))
    found = [(sample.running, sample.drafts, sample.draft_tokens, sample.accepted_tokens) for sample in tap.timeline(0)]
    assert found == [(1, 0, 0, 0), (2, 2, 6, 4)]
    tap.reset()
    assert tap.timeline(0.0) == ()
