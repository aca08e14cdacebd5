"""How an arm's host is during a trial."""

import os
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from app.measure.gpu import GpuLook, GpuReadings, GpuTotals, ProcessUse, list_processes, measure_gpu
from app.measure.host import EngineLook, core_ranges, stopped_s
from app.measure.records import Conditions, GpuConditions, ProcessTreatment, Spread, Unseen
from workers import processes
from workers.nvml import Gpu, Gpus

_SHORTEST_READABLE_S = 0.5  # the kernel counts CPU time in ticks of 10 ms
_PERIOD_S = 0.25
_SELDOM = 4  # looks after which NVML is asked for what it counts about once a second
_REST_WITHIN_S, _REST_LOOK_S, _REST_SHARE = 3.0, 0.2, 0.1  # of one core
_ARM = "arm"  # the role of the process that drives the engine
_STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


@dataclass(frozen=True, slots=True)
class _Reading:
    at_s: float  # seconds since the epoch, NVML's clock
    load: float
    host_cpu_s: float
    engine_cpu_s: float
    other_arms_cpu_s: float
    totals: tuple[GpuTotals, ...]


class ConditionsMeter:
    """Reads the host before, during and after a trial, in the process that drives the arm's engine.

    As a context it is open for a trial, and ``conditions`` are those of the last one.
    """

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus
        self._unseen = [gpu.find_unseen() for gpu in gpus.known]
        self.cpu_s = 0.0  # what looking cost during the last trial
        self.conditions = Conditions()

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *_: object) -> None:
        self.conditions = self.end()

    def begin(self) -> None:
        """Read the host before a trial, once other arms' engines are at rest, and go on looking at it until ``end``."""
        self._experiment, engine = _find_processes()
        own = {process.pid for process in engine}
        _await_rest([process for process in self._experiment if process.pid not in own])
        self._roles = {process.pid: role for process in engine if (role := _find_role(process)) is not None}
        self._before = self._read_host(self._experiment, engine)
        self._looking = _Looking(self._gpus.known, self._roles, int(self._before.at_s * 1e6))
        self._looking.start()

    def end(self) -> Conditions:
        """Read the host again and say what happened in between."""
        looking = self._looking
        looking.finish()
        self.cpu_s = looking.cpu_s
        experiment, engine = _find_processes()
        before, after = self._before, self._read_host(experiment, engine)
        ours = {process.pid for process in (*self._experiment, *experiment)}
        gpus = tuple(
            self._read_gpu(index, before, after, ours, looking) for index in range(len(self._gpus.known))
        ) or tuple(
            GpuConditions(name, unseen=dict.fromkeys(Unseen, self._gpus.trouble or "")) for name in self._gpus.names
        )
        return Conditions(
            load_before=before.load,
            load_after=after.load,
            other_cpu_pct=_compute_share_pct(
                before,
                after,
                (after.host_cpu_s - before.host_cpu_s)
                - (after.engine_cpu_s - before.engine_cpu_s)
                - (after.other_arms_cpu_s - before.other_arms_cpu_s),
            ),
            idle_arms_cpu_pct=_compute_share_pct(before, after, after.other_arms_cpu_s - before.other_arms_cpu_s),
            stopped_pct=100.0 * stopped_s(looking.engine, _PERIOD_S) / max(after.at_s - before.at_s, 1e-9),
            engine_processes=_read_treatment(self._roles),
            gpu_util_pct=_average([gpu.util_pct for gpu in gpus]),
            sm_clock_mhz=_average([_find_middle(gpu.sm_clock_mhz) for gpu in gpus]),
            memory_clock_mhz=_average([_find_middle(gpu.memory_clock_mhz) for gpu in gpus]),
            temperature_c=_average([_find_middle(gpu.temperature_c) for gpu in gpus]),
            power_w=_add_up([gpu.power_w for gpu in gpus]),
            energy_j=_add_up([gpu.energy_j for gpu in gpus]),
            memory_used_mib=_add_up([gpu.memory_used_mib for gpu in gpus]),
            gpus=gpus,
        )

    def _read_host(self, experiment: Collection[psutil.Process], engine: Collection[psutil.Process]) -> _Reading:
        times = psutil.cpu_times()
        own = {process.pid for process in engine}
        return _Reading(
            at_s=time.time(),
            load=os.getloadavg()[0],
            host_cpu_s=sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0),
            engine_cpu_s=sum(map(_read_cpu_s, engine)),
            other_arms_cpu_s=sum(_read_cpu_s(process) for process in experiment if process.pid not in own),
            totals=tuple(gpu.read_totals() for gpu in self._gpus.known),
        )

    def _read_gpu(
        self, index: int, before: _Reading, after: _Reading, ours: Collection[int], looking: "_Looking"
    ) -> GpuConditions:
        gpu = self._gpus.known[index]
        readings = GpuReadings(
            gpu=gpu.name,
            seconds=max(after.at_s - before.at_s, 1e-9),
            before=before.totals[index],
            after=after.totals[index],
            looks=looking.gpu[index].looks,
            uses=tuple(looking.gpu[index].uses),
            util_pct=gpu.read_util_pct(before.at_s, after.at_s),
            unseen=self._unseen[index],
        )
        return measure_gpu(readings, frozenset(ours), looking.names)


@dataclass
class _Seen:
    """What was read of one GPU."""

    looks: list[GpuLook] = field(default_factory=list)
    uses: dict[ProcessUse, None] = field(default_factory=dict)


class _Looking(threading.Thread):
    """Looks at the GPUs and the engine's processes again and again: once before it starts, once at its end."""

    def __init__(self, gpus: tuple[Gpu, ...], engine: Collection[int], since_us: int) -> None:
        super().__init__(name="conditions", daemon=True)
        self._gpus, self._since_us = gpus, since_us
        self._processes = [psutil.Process(pid) for pid in engine if psutil.pid_exists(pid)]
        self._done = threading.Event()
        self.gpu = [_Seen() for _ in gpus]
        self.engine: list[EngineLook] = []
        self.names: dict[int, str] = {}  # of every process seen on a GPU, while it could be asked
        self.cpu_s = 0.0
        self._look(seldom=False)

    def run(self) -> None:
        """Look, until ``finish``."""
        looks = 0
        while not self._done.wait(_PERIOD_S):
            looks += 1
            self._look(seldom=looks % _SELDOM == 0)
        self.cpu_s = time.thread_time()

    def finish(self) -> None:
        """Stop, and look a last time."""
        self._done.set()
        self.join()
        self._look(seldom=True)

    def _look(self, *, seldom: bool) -> None:
        began, cpu_s = time.monotonic(), time.process_time()
        stopped = any(_read_status(process) in _STOPPED for process in self._processes)
        for gpu, seen in zip(self._gpus, self.gpu, strict=True):
            look = gpu.look(pcie=seldom)
            seen.looks.append(look)
            for pid in list_processes([look]) - self.names.keys():
                self.names[pid] = _read_name(pid)
            if seldom:
                seen.uses |= dict.fromkeys(gpu.list_uses(self._since_us))
        self.engine.append(EngineLook(at_s=began, done_s=time.monotonic(), stopped=stopped, cpu_s=cpu_s))


def _await_rest(others: Collection[psutil.Process]) -> None:
    """Wait, within bounds, while idle engines use the CPU: a worker of vLLM spins for a second after its last step."""
    deadline = time.monotonic() + _REST_WITHIN_S
    while others and time.monotonic() < deadline:
        before = sum(map(_read_cpu_s, others))
        time.sleep(_REST_LOOK_S)
        if sum(map(_read_cpu_s, others)) - before < _REST_SHARE * _REST_LOOK_S:
            return


def _find_processes() -> tuple[list[psutil.Process], list[psutil.Process]]:
    """The processes of the whole experiment, and of them those of the arm's own engine."""
    me = psutil.Process()
    engine = {process.pid: process for process in (me, *me.children(recursive=True))}
    worker, own = os.environ.get(processes.WORKER_MARK), os.environ.get(processes.ENGINE_MARK)
    marked = () if worker is None else processes.find_marked(processes.WORKER_MARK, worker.__eq__)
    engine |= {process.pid: process for process in marked if processes.read_mark(process, processes.ENGINE_MARK) == own}
    every = engine | {process.pid: process for process in marked}
    return list(every.values()), list(engine.values())


def _find_role(process: psutil.Process) -> str | None:
    if process.pid == os.getpid():
        return _ARM
    title = processes.read_title(process.pid)
    return title.split()[0] if title.startswith(processes.ENGINE_TITLE) else None


def _read_treatment(roles: dict[int, str]) -> tuple[ProcessTreatment, ...]:
    found = set()
    for pid, role in roles.items():
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            found.add(ProcessTreatment(role, process.nice(), core_ranges(process.cpu_affinity())))
    return tuple(sorted(found, key=lambda one: (one.role, one.niceness, one.cores)))


def _compute_share_pct(before: _Reading, after: _Reading, cpu_s: float) -> float | None:
    """CPU time as a share of all cores; None for a trial too short for the kernel's 10 ms ticks."""
    elapsed = after.at_s - before.at_s
    if elapsed < _SHORTEST_READABLE_S:
        return None
    return max(0.0, 100.0 * cpu_s / (elapsed * (psutil.cpu_count() or 1)))


def _read_cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _read_status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return ""


def _read_name(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""


def _find_middle(spread: Spread | None) -> float | None:
    return None if spread is None else spread.mean


def _average(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _add_up(values: list[float | None]) -> float | None:
    """Of all; None where any is unknown, or there is none."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
