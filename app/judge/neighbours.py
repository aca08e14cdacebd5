"""Processes on the arms' GPUs that are none of the experiment's."""

from collections.abc import Iterator, Sequence
from statistics import median

from app.measure.metrics import TrialSummary
from app.measure.records import Conditions, GpuConditions, Neighbour, Unseen

BUSY_PCT = 1.0  # of a trial: what a neighbour may take of a GPU's SMs, or keep its memory at work, and count as idle
UNEQUAL = 0.2  # of the larger share: what two arms' shares of a neighbour that is always busy may differ

Trials = tuple[TrialSummary, TrialSummary]
Gpus = tuple[GpuConditions, GpuConditions]

_CLAUSES = {
    Unseen.PROCESSES: "which other processes were on the GPU",
    Unseen.SHARES: "what other processes took of the GPU",
    Unseen.HELD_BACK: "for how long power or heat held the GPU back",
}


def find_neighbour_disturbance(conditions: Conditions) -> str | None:
    """Which neighbour makes a trial worthless, if one does: it took its share of a GPU, or came or went meanwhile."""
    for gpu in conditions.gpus:
        for one in gpu.neighbours:
            did = _describe_deed(one)
            if did is not None:
                return f"{name_neighbour(one)} {did} GPU {gpu.gpu}"
    return None


def name_neighbour(neighbour: Neighbour) -> str:
    """`another process, python3 (pid 4711, 2.1 GiB)`."""
    name = f", {neighbour.name}" if neighbour.name else ""
    memory = "" if neighbour.memory_mib is None else f", {neighbour.memory_mib / 1024:.1f} GiB"
    return f"another process{name} (pid {neighbour.pid}{memory})"


def find_unequal_neighbours(pairs: Sequence[Trials]) -> Iterator[str]:
    """Why the GPUs were not shared alike; `pairs` holds two arms' trials block by block, dropped blocks too."""
    names = [trial.planned.arm for trial in pairs[0]] if pairs else []
    for index in range(min((len(list_gpus(trial)) for pair in pairs for trial in pair), default=0)):
        both = [(list_gpus(one)[index], list_gpus(other)[index]) for one, other in pairs]
        seen = [pair for pair in both if all(Unseen.PROCESSES not in gpu.unseen for gpu in pair)]
        one_sided = [reason for side in (0, 1) if (reason := find_one_sided(seen, side, names[side])) is not None]
        yield from one_sided or find_unequal_shares(seen, names)


def find_one_sided(pairs: Sequence[Gpus], side: int, name: str) -> str | None:
    """A neighbour that was there during one arm's trials only, in most blocks."""
    alone = [found for pair in pairs if (found := find_alone(pair, side)) is not None]
    if len(alone) <= len(pairs) / 2:
        return None
    worst = max(alone, key=lambda one: one.sm_pct or 0.0)
    share = "" if worst.sm_pct is None else f" and took up to {worst.sm_pct:.0f} % of its SM time"
    return (
        f"{name_neighbour(worst)} was on GPU {pairs[0][0].gpu} during trials of {name} only{share}, in {len(alone)} of "
        f"{len(pairs)} blocks"
    )


def find_unequal_shares(pairs: Sequence[Gpus], names: Sequence[str]) -> Iterator[str]:
    """Neighbours that took more of one arm's trials than of the other's."""
    shares = [(_sum_shares(one), _sum_shares(other)) for one, other in pairs]
    if not shares:
        return
    ours, theirs = (median(side) for side in zip(*shares, strict=True))
    apart = abs(median(other - one for one, other in shares))
    if apart > max(BUSY_PCT, UNEQUAL * max(ours, theirs)):
        every = [one for pair in pairs for gpu in pair for one in gpu.neighbours]
        worst = max(every, key=lambda one: one.sm_pct or 0.0)
        others = " and others" if len({one.pid for one in every}) > 1 else ""
        yield (
            f"{name_neighbour(worst)}{others} took {ours:.0f} % of the SM time of GPU {pairs[0][0].gpu} during "
            f"the trials of {names[0]} and {theirs:.0f} % during those of {names[1]}"
        )


def describe_unseen(what: Unseen, trials: Sequence[TrialSummary]) -> str | None:
    """`which other processes were on the GPU could not be seen (why)`; None where it was seen in all of the trials."""
    reasons = [gpu.unseen[what] for trial in trials for gpu in list_gpus(trial) if what in gpu.unseen]
    return f"{_CLAUSES[what]} could not be seen ({reasons[0]})" if reasons else None


def describe_unattributed(trials: Sequence[TrialSummary]) -> str | None:
    """What nobody can say of neighbours in these trials; None where everything was seen, or nobody was there."""
    processes = describe_unseen(Unseen.PROCESSES, trials)
    if processes is not None or not any(map(has_neighbours, trials)):
        return processes
    return describe_unseen(Unseen.SHARES, trials)


def list_gpus(trial: TrialSummary) -> tuple[GpuConditions, ...]:
    """The GPUs of its arm."""
    return () if trial.conditions is None else trial.conditions.gpus


def describe_neighbours(trial: TrialSummary) -> Iterator[str]:
    """Everybody else on its GPUs, and what they did there."""
    for gpu in list_gpus(trial):
        for one in gpu.neighbours:
            yield f"{name_neighbour(one)} {_describe_deed(one) or 'held memory of'} GPU {gpu.gpu}"


def measure_held_back_pct(trial: TrialSummary) -> dict[str, float]:
    """For how much of it each reason held a GPU back: of the GPU that it held most."""
    found: dict[str, float] = {}
    for gpu in list_gpus(trial):
        for reason, share in gpu.held_back_pct.items():
            found[reason] = max(share, found.get(reason, share))
    return found


def has_neighbours(trial: TrialSummary) -> bool:
    """Whether anybody else was on its GPUs."""
    return any(gpu.neighbours for gpu in list_gpus(trial))


def _describe_deed(one: Neighbour) -> str | None:
    if one.sm_pct is not None and one.sm_pct > BUSY_PCT:
        return f"took {one.sm_pct:.0f} % of the SM time of"
    if one.memory_busy_pct is not None and one.memory_busy_pct > BUSY_PCT:
        return f"had the memory at work for {one.memory_busy_pct:.0f} % of the time on"
    return "came or went during the trial on" if one.passing else None


def find_alone(pair: Gpus, side: int) -> Neighbour | None:
    """The busiest neighbour that one of two trials had, where the other had none of its own."""
    pids = [{one.pid for one in gpu.neighbours} for gpu in pair]
    here, there = pids[side] - pids[1 - side], pids[1 - side] - pids[side]
    if not here or there:
        return None
    return next(one for one in pair[side].neighbours if one.pid in here)


def _sum_shares(gpu: GpuConditions) -> float:
    return sum(one.sm_pct or 0.0 for one in gpu.neighbours)
