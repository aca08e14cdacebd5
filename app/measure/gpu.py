"""One GPU over one trial, from what NVML said at moments of it."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from app.measure.records import GpuConditions, Neighbour, Spread, Unseen


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that NVML lists on a GPU."""

    pid: int
    memory_mib: float | None


@dataclass(frozen=True, slots=True)
class GpuLook:
    """A GPU at one moment; None where it cannot be read."""

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    temperature_c: float | None = None
    memory_used_mib: float | None = None
    pcie_mb_s: float | None = None
    processes: tuple[GpuProcess, ...] | None = None


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """What a process took of a GPU in the time before a moment, as NVML samples it about once a second."""

    at_us: int
    pid: int
    sm_pct: float
    memory_pct: float


@dataclass(frozen=True, slots=True)
class GpuTotals:
    """What a GPU counts since it was set up; a counter that cannot be read is missing."""

    energy_j: float | None = None
    held_back_s: Mapping[str, float] = field(default_factory=dict)  # by reason


@dataclass(frozen=True, slots=True)
class GpuReadings:
    """All that was read of a GPU over a trial; the first look is from before it and the last from after it."""

    gpu: str
    seconds: float
    before: GpuTotals
    after: GpuTotals
    looks: Sequence[GpuLook]
    uses: Sequence[ProcessUse]
    util_pct: float | None
    unseen: Mapping[Unseen, str]


def measure_gpu(readings: GpuReadings, ours: Collection[int], names: Mapping[int, str]) -> GpuConditions:
    """What the readings say. `ours`: process ids of the whole experiment; `names`: of other processes, where known."""
    looks, unseen = readings.looks, dict(readings.unseen)
    energy = None
    if readings.before.energy_j is not None and readings.after.energy_j is not None:
        energy = readings.after.energy_j - readings.before.energy_j
    held = {
        reason: min(100.0, 100.0 * (total - readings.before.held_back_s[reason]) / readings.seconds)
        for reason, total in readings.after.held_back_s.items()
        if reason in readings.before.held_back_s
    }
    if not held:
        unseen.setdefault(Unseen.HELD_BACK, "NVML does not say")
    if Unseen.PROCESSES not in unseen and list_processes(looks).isdisjoint(ours):
        unseen[Unseen.PROCESSES] = "NVML does not list our own engine: its process ids are those of another namespace"
    neighbours = () if Unseen.PROCESSES in unseen else list_neighbours(readings, ours, names)
    if any(one.sm_pct is None for one in neighbours):
        unseen.setdefault(Unseen.SHARES, "NVML had no sample of them")
    memory = [look.memory_used_mib for look in looks if look.memory_used_mib is not None]
    return GpuConditions(
        gpu=readings.gpu,
        util_pct=readings.util_pct,
        sm_clock_mhz=_find_spread([look.sm_clock_mhz for look in looks]),
        memory_clock_mhz=_find_spread([look.memory_clock_mhz for look in looks]),
        temperature_c=_find_spread([look.temperature_c for look in looks]),
        power_w=None if energy is None else energy / readings.seconds,
        energy_j=energy,
        memory_used_mib=max(memory, default=None),
        pcie_mb_s=_find_spread([look.pcie_mb_s for look in looks]),
        held_back_pct=held,
        neighbours=neighbours,
        unseen=unseen,
    )


def list_processes(looks: Sequence[GpuLook]) -> frozenset[int]:
    """Every process that any look lists."""
    return frozenset(process.pid for look in looks for process in look.processes or ())


def list_neighbours(readings: GpuReadings, ours: Collection[int], names: Mapping[int, str]) -> tuple[Neighbour, ...]:
    """Strangers, those that took most first."""
    pids = (list_processes(readings.looks) | {use.pid for use in readings.uses}).difference(ours)
    found = [describe_neighbour(pid, readings, names.get(pid, "")) for pid in pids]
    return tuple(
        sorted(found, key=lambda one: (_rank_most_first(one.sm_pct), _rank_most_first(one.memory_mib), one.pid))
    )


def _rank_most_first(value: float | None) -> tuple[bool, float]:
    """What nobody knows comes last."""
    return (True, 0.0) if value is None else (False, -value)


def describe_neighbour(pid: int, readings: GpuReadings, name: str) -> Neighbour:
    """One stranger, over the whole trial."""
    looks = [look.processes for look in readings.looks if look.processes is not None]
    held = [process.memory_mib for processes in looks for process in processes if process.pid == pid]
    known = [memory for memory in held if memory is not None]
    there = [any(process.pid == pid for process in processes) for processes in looks]
    uses = [use for use in readings.uses if use.pid == pid]
    # NVML samples processes that do something: beside samples of others, none means nothing. And none is taken before
    # a process comes or after it went, so that their mean holds for the time in between.
    sampled = max(Counter(use.pid for use in readings.uses).values(), default=0)
    presence = max(sum(there) / len(there), len(uses) / sampled if sampled else 0.0)
    return Neighbour(
        pid=pid,
        name=name,
        memory_mib=max(known, default=None),
        sm_pct=presence * _compute_mean([use.sm_pct for use in uses]) if sampled else None,
        memory_busy_pct=presence * _compute_mean([use.memory_pct for use in uses]) if sampled else None,
        passing=not (there[0] and there[-1]),
    )


def _compute_mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _find_spread(values: Sequence[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    return Spread(mean=sum(known) / len(known), least=min(known), most=max(known)) if known else None
