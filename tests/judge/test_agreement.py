"""Whatever happens in an experiment, what is said of it agrees with itself, wherever it is said."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from app.cli.render import build_comparison_table
from app.judge.luck import NoiseFloor
from app.judge.results import Results, build_results
from app.judge.taken import contrast
from app.judge.verdict import Comparison, KnownSpread, Verdict
from app.measure.metrics import TrialSummary
from app.measure.records import Conditions, StartedArm, TrialState
from app.report import junit, markdown
from app.report.remarks import list_remarks, list_verdicts
from app.spec.experiment import Experiment
from app.spec.lifecycle import Status
from app.spec.plan import Phase, PlannedTrial, plan_trials, repeat_block
from app.spec.resolution import ResolvedArm, resolve
from tests.support.builders import a_gpu, a_neighbour, a_resolved_arm, a_spec, a_trial, some_work

DECIDED = {Verdict.FASTER, Verdict.SLOWER, Verdict.SAME}
MIRRORED = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
CLAIM = re.compile(r" is [^:]*(faster|slower) than | is as fast as |: same within |They (may )?differ in")

CONDITIONS = (
    Conditions(other_cpu_pct=5.0, idle_arms_cpu_pct=2.0),
    Conditions(other_cpu_pct=20.0),
    Conditions(other_cpu_pct=60.0),
    Conditions(stopped_pct=30.0),
    Conditions(gpus=(a_gpu(),)),
    Conditions(gpus=(a_gpu(), a_gpu(gpu="1"))),
    Conditions(gpus=(a_gpu(a_neighbour()),)),
    Conditions(gpus=(a_gpu(a_neighbour(sm_pct=40.0)),)),
    Conditions(gpus=(a_gpu(held_back_pct={"power": 90.0, "heat": 0.0}, clock_mhz=1500.0),)),
)
WORKS = (
    some_work(cached_tokens=16),
    some_work(cached_tokens=None),
    some_work(output_tokens=44, shape_sha256="6b" * 32),
    some_work(prompt_tokens=33),
    some_work(finish_reasons={"stop": 4}),
)
KINDS: tuple[dict[str, Any], ...] = (
    {"profile": "vllm-sync"},
    {"profile": "vllm-async"},
    {"profile": "vllm-sync", "engine": {"max_num_seqs": 128}},
    {"profile": "vllm-sync", "engine": {"enable_prefix_caching": False}},
    {"profile": "vllm-sync", "environment": {"variables": {"OMP_NUM_THREADS": "1"}}},
    {"profile": "simulated"},
)
SPREAD = KnownSpread(sd_pct=0.2, blocks=3, starts=6, between_pct=0.1, between_interval_pct=(0.0, 0.4))
NOISE = NoiseFloor(floor_pct=0.5, noise_pct=0.3, experiments=2, starts=6, spreads={"output_throughput": SPREAD})


@dataclass(frozen=True)
class Run:
    """An experiment, and what became of it."""

    spec: Experiment
    trials: list[TrialSummary]
    arms: list[StartedArm]
    status: Status
    noise: NoiseFloor | None

    @property
    def results(self) -> Results:
        resolved = resolve(self.spec)
        return build_results(
            "an-id",
            spec=self.spec,
            resolved=resolved,
            plan=plan_trials(self.spec, resolved),
            status=self.status,
            arms=self.arms,
            trials=self.trials,
            noise=self.noise,
        )


@st.composite
def specs(draw: st.DrawFn, most_arms: int = 3) -> Experiment:
    """Arms that differ in what is in force, in what is not, and in nothing; every kind of plan."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=most_arms))
    arms = [{"name": f"arm-{letter}"} | kind for letter, kind in zip("abc", kinds, strict=False)]
    blocks = draw(st.integers(1, 8))
    plan: dict[str, Any] = draw(
        st.sampled_from([{}, {"starts": min(2, blocks)}, {"residency": "restart"}, {"looks": [min(blocks, 2), blocks]}])
    )
    if blocks <= 2:
        plan = {}
    output = draw(st.sampled_from([{}, {"workload": {"output": {"stop": "natural", "max_tokens": 64}}}]))
    baseline = draw(st.sampled_from([arm["name"] for arm in arms]))
    return a_spec(arms=arms, plan={"blocks": blocks} | plan, baseline=baseline, **output)


@st.composite
def runs(draw: st.DrawFn, most_arms: int = 3) -> Run:
    """Trials that fail, are disturbed, do other work or are missing; engines that take their settings or do not."""
    spec = draw(specs(most_arms))
    resolved = resolve(spec)
    plan = plan_trials(spec, resolved)
    planned = list(plan.measured)
    if draw(st.booleans()):
        planned += repeat_block(plan, draw(st.sampled_from(plan.measured)).block, 0)
    if draw(st.integers(0, 3)) == 0:
        planned = planned[: draw(st.integers(0, len(planned)))]
    odd = draw(st.sets(st.sampled_from(["conditions", "work", "failure", "gpus"])))
    speeds = {arm.name: draw(st.sampled_from([100.0, 100.0, 101.0, 80.0])) for arm in resolved.arms}
    noise_pct = draw(st.sampled_from([0.0, 1e-5, 0.1, 3.0]))
    taken = draw(st.booleans())
    return Run(
        spec,
        [draw(trials_of(one, speeds[one.arm], noise_pct, odd)) for one in planned],
        [started(arm, taken=taken) for arm in resolved.arms][: draw(st.sampled_from([3, 3, 3, 1]))],
        draw(st.sampled_from([*3 * [Status.SUCCEEDED], Status.RUNNING, Status.CANCELLED, Status.FAILED])),
        draw(st.sampled_from([None, NOISE])),
    )


@st.composite
def trials_of(draw: st.DrawFn, planned: PlannedTrial, speed: float, noise_pct: float, odd: set[str]) -> TrialSummary:
    """One trial; one in six of those that may be odd in a way is."""
    value = speed * (1 + noise_pct / 100 * draw(st.floats(-1, 1)))
    gpus = 2 if "gpus" in odd and planned.arm == "arm-a" else 1
    metrics = {"output_throughput_per_gpu": value / gpus, "duration_s": 400 / value, "ttft_ms.p50": 1000 / value}
    trial = replace(a_trial(planned.arm, throughput=value, metrics=metrics), planned=planned)
    is_odd = {kind for kind in sorted(odd) if draw(st.integers(0, 5)) == 0}
    if "conditions" in is_odd:
        trial = replace(trial, conditions=draw(st.sampled_from(CONDITIONS)))
    if "work" in is_odd:
        trial = replace(trial, work=draw(st.sampled_from(WORKS)))
    if "failure" in is_odd:
        nothing, why = dict.fromkeys(trial.metrics), dict.fromkeys(trial.metrics, "the trial failed")
        trial = replace(trial, state=TrialState.FAILED, work=None, error="it died", metrics=nothing, missing=why)
    return trial


def started(arm: ResolvedArm, *, taken: bool) -> StartedArm:
    """An engine that took what it was asked for, or has what all the others have."""
    threads = arm.environment.variables.get("OMP_NUM_THREADS")
    config = {
        "driver.api": arm.driver.api.value,
        "engine.scheduler_config.max_num_seqs": arm.engine.max_num_seqs if taken else 256,
        "engine.cache_config.enable_prefix_caching": arm.engine.enable_prefix_caching if taken else True,
        "env.OMP_NUM_THREADS": threads if taken else "1",
    }
    return a_resolved_arm(arm.name, config, simulated=arm.simulated)


def findings(results: Results) -> Iterator[tuple[Comparison, str]]:
    """Every comparison in output throughput or its like that has a line of the summary, with the line."""
    for line in results.summary.splitlines():
        for one in results.comparisons:
            names = {"output_throughput_per_gpu": "output throughput per GPU", "duration_s": "duration"}
            metric = names.get(one.metric, "output throughput(?! per)")
            if one.primary and re.search(rf"\b{one.candidate} (is|against) .* on {metric}[ :]", line):
                yield one, line


@settings(max_examples=60, deadline=None)
@given(runs())
def test_the_sentence_claims_what_the_verdict_does_and_no_more(run: Run) -> None:
    results = run.results
    if not DECIDED & set(results.verdicts):
        assert not CLAIM.search(results.summary)
    if run.status is not Status.SUCCEEDED:
        assert not DECIDED & {one.verdict for one in results.comparisons}
    for one, line in findings(results):
        if one.verdict in DECIDED:
            word = {Verdict.SAME: "same within"}.get(one.verdict, f" {one.verdict} ")
            assert word in line
        else:
            assert not CLAIM.search(line)
    for word in ("None", "nan", "inf ", "{", "  "):
        assert word not in results.summary
    if told := re.search(r"(\d+) of (\d+) blocks", results.summary):
        assert int(told[1]) <= int(told[2])


@settings(max_examples=60, deadline=None)
@given(runs(most_arms=2))
def test_what_the_arms_are_said_to_differ_in_is_in_force(run: Run) -> None:
    one, other = resolve(run.spec).arms
    void = contrast(one, other, run.arms).void
    for line in run.results.summary.splitlines():
        named = line.partition("They differ in ")[2].partition("They may differ in ")[0]
        assert not [setting for setting in void if setting in named]


@settings(max_examples=60, deadline=None)
@given(runs())
def test_numbers_verdicts_and_reasons_of_a_comparison_agree(run: Run) -> None:
    results = run.results
    counted = {(one.arm, one.slot) for one in results.trials if one.phase is Phase.MEASURED and one.dropped is None}
    for one in results.comparisons:
        assert bool(one.reasons) == (one.verdict not in DECIDED)
        assert {(one.baseline, block.baseline_slot) for block in one.blocks} <= counted
        assert {(one.candidate, block.candidate_slot) for block in one.blocks} <= counted
        if one.verdict in DECIDED:
            assert one.change_pct is not None
            assert one.interval_pct is not None
            low, high = one.interval_pct
            assert (low <= 0 <= high) <= (one.verdict is Verdict.SAME)
        if one.verdict in MIRRORED:
            assert one.change_pct is not None
            assert ((one.change_pct > 0) == one.higher_is_better) == (one.verdict is Verdict.FASTER)


@settings(max_examples=60, deadline=None)
@given(runs())
def test_terminal_markdown_and_junit_say_what_the_document_says(run: Run) -> None:
    results = run.results
    wire = results.model_dump(mode="json")
    assert list_verdicts(wire) == results.verdicts
    text = markdown.write(wire, "a name")
    console = Console(width=400)
    with console.capture() as captured:
        console.print(build_comparison_table(wire["comparisons"]))
    terminal = captured.get()
    cases = ElementTree.fromstring(junit.write(wire, "a name")).findall("testsuite/testcase")  # noqa: S314 - our own
    assert len(cases) == len(results.comparisons)
    for verdict in results.verdicts:
        assert verdict in text
        assert verdict in terminal
    failed = {(case.get("classname"), case.get("name")) for case in cases if case.find("failure") is not None}
    assert failed == {
        (f"{one.candidate} against {one.baseline}", one.metric)
        for one in results.comparisons
        if one.primary and one.verdict in {Verdict.SLOWER, Verdict.CONFOUNDED}
    }
    assert not [remark for remark in list_remarks(wire) if "None" in remark]


@settings(max_examples=60, deadline=None)
@given(runs(most_arms=2))
def test_swapping_the_arms_mirrors_everything(run: Run) -> None:
    other = next(arm.name for arm in run.spec.arms if arm.name != run.spec.baseline_name)
    swapped = replace(run, spec=run.spec.model_copy(update={"baseline": other}))
    ours, theirs = run.results, swapped.results
    assert {one.metric: MIRRORED.get(one.verdict, one.verdict) for one in ours.comparisons} == {
        one.metric: one.verdict for one in theirs.comparisons
    }
    assert ours.fairness == theirs.fairness
    assert [one.dropped is None for one in ours.trials] == [one.dropped is None for one in theirs.trials]


@settings(max_examples=40, deadline=None)
@given(runs(), st.sampled_from([0.001, 7.0, 1e6]))
def test_a_metric_s_unit_changes_no_verdict(run: Run, factor: float) -> None:
    scaled = [
        replace(
            trial,
            metrics={
                key: value if value is None or key == "duration_s" else factor * value
                for key, value in trial.metrics.items()
            },
        )
        for trial in run.trials
    ]
    assert [one.verdict for one in run.results.comparisons] == [
        one.verdict for one in replace(run, trials=scaled).results.comparisons
    ]
