"""What benchmarks.gpu reads: times, timelines, nvidia-smi, vLLM's log, tables of other benchmarks."""

from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.measure.records import Conditions
from app.spec.plan import Phase
from app.spec.resolution import resolve
from benchmarks.gpu import fresh, harness
from benchmarks.gpu.budget import Deadline
from benchmarks.gpu.naps import beside_trials, naps
from benchmarks.gpu.parts import PARTS, experiment_of
from benchmarks.gpu.process import failure_of, run_until
from benchmarks.gpu.telemetry import against_smi, parse_smi, timeline, times
from benchmarks.support.service import eventually
from tests.support.builders import a_record, a_trial, an_engine_sample

BEGAN = datetime(2026, 11, 30, 6, 0, 0).timestamp()

# --- times and the timeline ----------------------------------------------------------------------------------------


def test_a_record_whose_times_go_backwards_is_counted() -> None:
    records = [a_record(), a_record(queued_s=None), a_record(first=2.0, last=1.0, delivered=3.0, scheduled_s=2.5)]
    assert times(records) == {"records": 3, "with_all_times": 2, "in_order": 1}


def test_a_timeline_that_misses_tokens_does_not_agree() -> None:
    whole = ([a_record(output_tokens=2)], [an_engine_sample(0.1), an_engine_sample(0.2)])
    cut = ([a_record(output_tokens=2)], [an_engine_sample(0.1, running=3)])
    found = timeline([whole, cut])
    assert (found["trials"], found["tokens_agree"], found["most_running"]) == (2, 1, 3)
    assert found["steps_per_trial"] == 1.5


def test_no_trial_has_no_timeline() -> None:
    assert timeline([])["steps_per_trial"] is None


# --- nvidia-smi ----------------------------------------------------------------------------------------------------

SMI = """\
2026/11/30 06:00:00.500, 90.10, 345, 3201, 131072, 0
2026/11/30 06:00:02.500, 560.00, 1980, 3201, 131072, 96
2026/11/30 06:00:03.000, 570.00, 1980, [N/A], 131072, 98
2026/11/30 06:00:09.000, 90.00, 345, 3201
"""


def test_a_line_that_was_cut_is_left_out_and_what_is_not_available_is_none() -> None:
    found = parse_smi(SMI)
    assert [one.power_w for one in found] == [90.1, 560.0, 570.0]
    assert found[0].at_s == pytest.approx(BEGAN + 0.5)
    assert found[2].memory_clock_mhz is None


def test_nvml_is_compared_with_what_nvidia_smi_saw_within_the_trial() -> None:
    # The trial ends at 3.2 s and took 2.6 s; nvidia-smi averages over a second, so samples count from 1.6 s on.
    conditions = Conditions(power_w=560.0, gpu_util_pct=97.0)
    trial = a_trial(started_at=BEGAN + 0.2, wall_s=3.0, metrics={"duration_s": 2.6}, conditions=conditions)
    found = against_smi([trial], parse_smi(SMI))
    assert found["power_w"] == {"trials": 1, "nvml": 560.0, "nvidia_smi": 565.0, "largest_difference": 5.0}
    assert found["gpu_util_pct"]["largest_difference"] == 0.0
    assert found["sm_clock_mhz"] is None


def test_warm_ups_and_trials_nobody_sampled_are_not_compared() -> None:
    conditions = Conditions(power_w=560.0)
    warmup = a_trial(phase=Phase.WARMUP, started_at=BEGAN, wall_s=4.0, conditions=conditions)
    assert against_smi([warmup, a_trial(conditions=conditions)], parse_smi(SMI))["power_w"] is None


# --- taking turns --------------------------------------------------------------------------------------------------

LOG = """\
INFO It took 18.100000 seconds to fall asleep.
INFO It took 0.700000 seconds to wake up tags {'weights', 'kv_cache'}.
INFO It took 0.370000 seconds to fall asleep.
"""


def test_an_engine_s_first_sleep_is_told_from_later_ones() -> None:
    found = naps([LOG, LOG, "INFO never slept"])
    assert found["first_sleeps_s"] == [18.1, 18.1]
    assert found["later_sleeps_s"] == {"n": 2, "mean": 0.37, "least": 0.37, "most": 0.37}
    assert found["wakes_s"]["n"] == 2


def test_a_swap_costs_what_a_trial_takes_beyond_its_measured_part() -> None:
    trials = [
        a_trial("sync", block=0, wall_s=25.0, metrics={"duration_s": 2.5}),  # with the other engine's first sleep
        a_trial("async", block=1, wall_s=4.0, metrics={"duration_s": 2.5}),
        a_trial("async", block=2, wall_s=2.6, metrics={"duration_s": 2.5}),
    ]
    found = beside_trials(trials, {"sync": 0, "async": 1})
    assert found["with_swap_s"]["mean"] == pytest.approx(1.5)
    assert found["without_s"]["mean"] == pytest.approx(0.1)


# --- the harness and fresh processes -------------------------------------------------------------------------------

TABLE = """\
| driver | samples x tokens | pairs | bare s | throughput ratio | 95 % interval | pair sd | harness CPU |
|---|---|---|---|---|---|---|---|
| llm | 4 x 256 | 16 | 1.255 | 1.0004 | 0.9975 to 1.0032 | 0.3 % | 0.13 % |
| llm | 256 x 256 | 16 | 4.306 | 0.9941 | 0.9689 to 1.0199 | 3.0 % | 0.07 % |
"""


def test_a_harness_meets_its_goal_where_even_the_lower_end_does() -> None:
    assert [(row["samples_x_tokens"], row["goal_met"]) for row in harness.rows(TABLE)] == [
        ("4 x 256", True),
        ("256 x 256", False),
    ]


def test_a_fresh_process_gets_the_arm_s_engine_and_work() -> None:
    spec = fresh.spec_of(PARTS["b32"].spec)
    sync, async_ = (
        fresh.command(arm, spec["workload"], seed=3, out=Path("out.json"), sleep_mode=True)
        for arm in resolve(experiment_of(spec)).arms
    )
    assert " ".join(sync[3:]) in " ".join(async_[3:])
    assert async_[-1] == "--async-engine"
    assert "skip-tokenizer-init" not in " ".join(sync)
    given = dict(pairwise(sync))
    assert {flag: given[flag] for flag in ("--max-num-seqs", "--max-num-batched-tokens", "--load-format")} == {
        "--max-num-seqs": "256",
        "--max-num-batched-tokens": "10240",
        "--load-format": "dummy",
    }
    assert [given[flag] for flag in ("--num-prompts", "--random-input-len", "--random-output-len")] == [
        "32",
        "256",
        "512",
    ]
    assert {"--no-enforce-eager", "--enable-sleep-mode", "--disable-detokenize"} <= set(sync)


def test_a_child_is_ended_with_its_children_when_the_time_is_over(tmp_path: Path) -> None:
    script = ["sh", "-c", "sleep 600 & echo $!; wait"]
    ran = run_until(script, {}, tmp_path / "out", tmp_path / "log", Deadline.after(1.0))
    assert ran["cut_short"]
    assert failure_of(ran, tmp_path / "log") is None
    eventually(lambda: not psutil.pid_exists(int((tmp_path / "out").read_text())) or _is_zombie(tmp_path / "out"))


def _is_zombie(pid: Path) -> bool:
    return psutil.Process(int(pid.read_text())).status() == psutil.STATUS_ZOMBIE


def test_a_child_that_fails_leaves_the_end_of_its_log(tmp_path: Path) -> None:
    script = ["sh", "-c", "echo $WHY >&2; exit 3"]
    ran = run_until(script, {"WHY": "no GPU"}, tmp_path / "out", tmp_path / "log", Deadline.after(None))
    assert failure_of(ran, tmp_path / "log") == {"exit_code": 3, "log_tail": "no GPU\n"}


def processes(*, blocks: int) -> list[dict[str, Any]]:
    """Processes of 50 s; async takes 1 % longer, second ones 0.1 s longer."""
    return [
        {"arm": arm, "block": block, "position": place, "trial_s": (3.0 + 0.1 * place) * factor, "process_s": 50.0}
        for block in range(blocks)
        for place, (arm, factor) in enumerate([("sync", 1.0), ("async", 1.01)][:: 1 if block % 2 == 0 else -1])
    ]


def test_the_service_s_share_is_of_all_processes_though_some_have_not_run() -> None:
    found = fresh.cost(processes(blocks=2), 12, {"gpu_s": 180.0})
    assert (found["ran"], found["all_processes_s"], found["service_share"]) == (4, 600.0, 0.3)
    assert found["goal_met"]


def test_fresh_processes_are_compared_by_the_same_analysis() -> None:
    found = fresh.comparison(processes(blocks=6))
    assert found is not None
    assert found["blocks"] == 6
    assert found["duration_change_pct"] == pytest.approx(1.0, abs=0.01)


def test_a_block_of_one_process_is_no_pair() -> None:
    assert fresh.comparison(processes(blocks=2)[:3]) is None


def test_without_processes_there_is_no_cost() -> None:
    assert fresh.cost([], 12, None) == {"trials": 12, "ran": 0}
