"""Are the service's readings right: times, the engines' timeline, and NVML against `nvidia-smi`?"""

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from shutil import which
from statistics import mean
from typing import Any

from app.measure.metrics import TrialSummary
from app.measure.records import EngineSample, RequestRecord
from app.spec.plan import Phase

_TIMES = ("arrived_s", "sent_s", "queued_s", "scheduled_s", "first_token_s", "last_token_s", "delivered_s")
_PERIOD_MS = 500
_SMEAR_S = 1.0  # nvidia-smi's power and utilisation are averages over the last second


# --- request times and the timeline --------------------------------------------------------------------------------


def times(records: Sequence[RequestRecord]) -> dict[str, int]:
    """How many records have all seven times, and how many have them in order."""
    known = [stamps for record in records if None not in (stamps := [getattr(record, name) for name in _TIMES])]
    ordered = sum(stamps == sorted(stamps) for stamps in known)
    return {"records": len(records), "with_all_times": len(known), "in_order": ordered}


def timeline(trials: Sequence[tuple[Sequence[RequestRecord], Sequence[EngineSample]]]) -> dict[str, Any]:
    """What the engines say they generated, against what was delivered, trial by trial."""
    delivered = [sum(record.output_tokens for record in records) for records, _ in trials]
    seen = [sum(sample.output_tokens for sample in samples) for _, samples in trials]
    return {
        "trials": len(trials),
        "tokens_agree": sum(one == other for one, other in zip(delivered, seen, strict=True)),
        "tokens_delivered": sum(delivered),
        "tokens_seen": sum(seen),
        "samples_per_trial": max((len(records) for records, _ in trials), default=0),
        "most_running": max((sample.running for _, samples in trials for sample in samples), default=0),
        "longest_sample_tokens": max((r.output_tokens for records, _ in trials for r in records), default=0),
        "steps_per_trial": mean(len(samples) for _, samples in trials) if trials else None,
    }


# --- conditions ----------------------------------------------------------------------------------------------------


def gpus(trials: Iterable[TrialSummary]) -> list[dict[str, Any]]:
    """The conditions of every GPU in every measured trial, as they are stored."""
    return [
        {"block": trial.planned.block, "arm": trial.planned.arm} | asdict(gpu)
        for trial in trials
        if trial.planned.phase is Phase.MEASURED and trial.conditions is not None
        for gpu in trial.conditions.gpus
    ]


# --- nvidia-smi ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Smi:
    """One line of `nvidia-smi`; None where it says it cannot tell. Names but the first are those of `Conditions`."""

    at_s: float
    power_w: float | None
    sm_clock_mhz: float | None
    memory_clock_mhz: float | None
    memory_used_mib: float | None
    gpu_util_pct: float | None


_QUERY = "timestamp,power.draw,clocks.sm,clocks.mem,memory.used,utilization.gpu"


@contextmanager
def sampling(file: Path) -> Iterator[None]:
    """`nvidia-smi` writes to the file meanwhile; nothing happens where there is none."""
    if which("nvidia-smi") is None:
        yield
        return
    command = [
        "nvidia-smi",
        f"--id={os.environ.get('CUDA_VISIBLE_DEVICES', '0').split(',')[0]}",
        f"--query-gpu={_QUERY}",
        "--format=csv,noheader,nounits",
        f"--loop-ms={_PERIOD_MS}",
    ]
    with file.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def parse_smi(text: str) -> tuple[Smi, ...]:
    """Lines of `sampling`; the last may have been cut."""
    found: list[Smi] = []
    for line in text.splitlines():
        stamp, *values = line.split(", ")
        if len(values) == len(fields(Smi)) - 1:
            with suppress(ValueError):
                at = datetime.strptime(stamp, "%Y/%m/%d %H:%M:%S.%f").timestamp()
                found.append(Smi(at, *(_number(value) for value in values)))
    return tuple(found)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def against_smi(trials: Iterable[TrialSummary], smi: Sequence[Smi]) -> dict[str, Any]:
    """Per reading: mean of NVML's and of nvidia-smi's over the same measured trials, and the largest difference."""
    compared = [
        (trial, within) for trial in trials if trial.planned.phase is Phase.MEASURED and (within := _within(trial, smi))
    ]
    return {
        reading: _agreement(
            [
                (ours, theirs)
                for trial, within in compared
                if (ours := getattr(trial.conditions, reading, None)) is not None
                and (theirs := _mean(getattr(one, reading) for one in within)) is not None
            ]
        )
        for reading in (field.name for field in fields(Smi)[1:])
    }


def _within(trial: TrialSummary, smi: Sequence[Smi]) -> list[Smi]:
    """Samples that look back at nothing but the trial's rollout, which ends with the trial."""
    duration = trial.metrics.get("duration_s")
    if duration is None:
        return []
    until = trial.started_at + trial.wall_s
    return [one for one in smi if until - duration + _SMEAR_S <= one.at_s <= until]


def _agreement(pairs: Sequence[tuple[float, float]]) -> dict[str, float] | None:
    if not pairs:
        return None
    return {
        "trials": len(pairs),
        "nvml": mean(ours for ours, _ in pairs),
        "nvidia_smi": mean(theirs for _, theirs in pairs),
        "largest_difference": max(abs(ours - theirs) for ours, theirs in pairs),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None
