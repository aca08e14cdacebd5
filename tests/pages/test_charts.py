"""Charts, looked at as text."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.judge.verdict import BlockValues, Comparison, DroppedBlock, Verdict
from app.pages.charts.ecdf import MOST_POINTS, Curve, plot_ecdf, pool
from app.pages.charts.intervals import plot_intervals
from app.pages.charts.legend import draw_legend
from app.pages.charts.pairs import plot_pairs
from app.pages.charts.scale import Linear, Log, spread_around, write_tick
from app.pages.charts.schedule import MOST_CELLS, Cells, plot_schedule
from app.pages.charts.sparkline import draw_sparkline
from app.pages.charts.svg import make_element
from tests.support.stories import HOSTILE


def a_comparison(
    change: float | None = -10.0,
    interval: tuple[float, float] | None = (-12.0, -8.0),
    *,
    higher: bool = True,
    verdict: Verdict = Verdict.SLOWER,
    metric: str = "output_throughput",
    primary: bool = True,
    blocks: tuple[BlockValues, ...] = (),
    dropped: tuple[DroppedBlock, ...] = (),
    candidate: str = "async",
) -> Comparison:
    return Comparison(
        metric=metric,
        unit="tokens/s",
        higher_is_better=higher,
        primary=primary,
        baseline="sync",
        candidate=candidate,
        ratio=None if change is None else 1 + change / 100,
        change_pct=change,
        interval_pct=interval,
        confidence=0.95,
        margin_pct=2.0,
        p_t=0.01,
        p_holm=None,
        p_sign_flip=None,
        pairs=len(blocks),
        blocks=blocks,
        dropped_blocks=dropped,
        analysis=None,
        sd_pct=0.5,
        position_effect_pct=None,
        detectable_effect_pct=0.9,
        blocks_needed=None,
        verdict=verdict,
        within_margin=False,
        reasons=(),
    )


def dots(svg: object) -> list[float]:
    """Where the dots of the wide drawing stand."""
    wide = str(svg).split('class="narrow"', maxsplit=1)[0]
    return [float(x) for x in re.findall(r'<circle cx="([0-9.]+)"', wide)]


def zero(svg: object) -> float:
    found = re.search(r'<line x1="([0-9.]+)"[^>]*class="zero"', str(svg))
    assert found is not None
    return float(found[1])


def test_a_worse_candidate_stands_left_whichever_way_its_metric_goes() -> None:
    throughput = a_comparison(-20.0, (-22.0, -18.0), higher=True)
    duration = a_comparison(25.0, (22.0, 28.0), higher=False, metric="duration_s")
    figure = plot_intervals("verdict", "The verdict", [throughput, duration])
    first, second = dots(figure.svg)
    assert first < zero(figure.svg)
    assert first == pytest.approx(second, abs=0.2)  # 0.8 and 1.25 are the same factor


def test_a_better_candidate_stands_right() -> None:
    figure = plot_intervals("verdict", "The verdict", [a_comparison(5.0, (4.0, 6.0), verdict=Verdict.FASTER)])
    assert dots(figure.svg)[0] > zero(figure.svg)
    assert "v-faster" in str(figure.svg)
    assert "same: ±2 %" in str(figure.svg)


def test_a_wild_secondary_metric_does_not_squeeze_the_primary_one() -> None:
    wild = a_comparison(900.0, (700.0, 1200.0), higher=False, metric="ttft_ms.p50", primary=False)
    figure = plot_intervals("metrics", "Metrics", [a_comparison(-5.0, (-6.0, -4.0)), wild])
    assert len(dots(figure.svg)) == 1  # the other is an arrowhead at the edge
    assert abs(dots(figure.svg)[0] - zero(figure.svg)) > 20
    assert "+900.0" in str(figure.svg)


def test_what_has_no_number_says_so() -> None:
    nothing = a_comparison(None, None, verdict=Verdict.INCONCLUSIVE)
    single = a_comparison(-3.0, None, verdict=Verdict.INCONCLUSIVE)
    svg = str(plot_intervals("verdict", "The verdict", [nothing, single]).svg)
    assert "no number" in svg
    assert "no interval" in svg
    assert "hollow" in svg


@given(
    st.lists(
        st.tuples(st.floats(-99.9, 1e6), st.floats(0, 50), st.booleans(), st.sampled_from(Verdict)),
        min_size=1,
        max_size=12,
    )
)
def test_any_changes_can_be_drawn(found: list[tuple[float, float, bool, Verdict]]) -> None:
    comparisons = [
        a_comparison(change, (max(change - spread, -99.99), change + spread), higher=higher, verdict=verdict)
        for change, spread, higher, verdict in found
    ]
    figure = plot_intervals("metrics", "Metrics", comparisons)
    assert "nan" not in str(figure.svg)
    assert len(figure.rows) == len(comparisons)


def test_a_chart_of_nothing_is_a_sentence() -> None:
    assert plot_intervals("verdict", "The verdict", []).svg is None
    assert plot_ecdf("e2el_ms", [], {}).svg is None


def block(number: int, before: float = 100.0, after: float = 90.0, *, first: bool = True) -> BlockValues:
    return BlockValues(
        block=number,
        baseline=before,
        candidate=after,
        baseline_slot=2 * number,
        candidate_slot=2 * number + 1,
        baseline_first=first,
    )


def test_the_arm_that_ran_first_stands_left() -> None:
    blocks = (block(0), block(1, first=False))
    figure = plot_pairs(a_comparison(blocks=blocks))
    wide = str(figure.svg).split('class="narrow"', maxsplit=1)[0]
    points = re.findall(r'<circle cx="([0-9.]+)"[^>]*class="point arm-([01])"', wide)
    (a, _), (b, _), (c, _), (d, _) = points
    assert float(a) < float(b)
    assert float(c) > float(d)


def test_dropped_blocks_are_crossed_out_and_in_the_data() -> None:
    lost = DroppedBlock(block=1, reason="async failed: the engine died")
    figure = plot_pairs(a_comparison(blocks=(block(0), block(2)), dropped=(lost,)))
    assert str(figure.svg).count('class="dropped"') == 2  # on desks and on phones
    assert figure.rows[-1] == (1, "sync", "async", None, None, None, None, lost.reason)


def test_two_hundred_blocks_do_not_write_over_each_other() -> None:
    figure = plot_pairs(a_comparison(blocks=tuple(block(number) for number in range(200))))
    assert str(figure.svg).count('class="tick"') < 80


def test_pooled_trials_weigh_by_their_samples() -> None:
    few, many = np.full(10, 1.0), np.full(10, 2.0)
    values = pool([(few, 100), (many, 900)])
    assert np.count_nonzero(values == 1.0) / len(values) == pytest.approx(0.1, abs=0.06)


def test_a_distribution_has_at_most_512_points_and_keeps_its_ends() -> None:
    values = np.sort(np.random.default_rng(0).lognormal(5, 1, 20_000))
    kept = pool([(values, len(values))])
    assert len(kept) == MOST_POINTS
    assert kept[0] == values[0]
    assert kept[-1] == values[-1]
    assert kept[MOST_POINTS // 2] == pytest.approx(np.median(values), rel=0.01)


def test_equal_latencies_can_be_drawn() -> None:
    figure = plot_ecdf("e2el_ms", [Curve("sync", 0, 4, np.full(4, 250.0))], {})
    assert "nan" not in str(figure.svg)
    assert "inf" not in str(figure.svg)


def test_names_are_text_in_a_chart() -> None:
    parts, _ = draw_legend([(HOSTILE, 0)], 0, 0, 400)
    assert "<script>" not in "".join(map(str, parts))
    assert "&lt;script&gt;" in "".join(map(str, parts))
    assert make_element("text", HOSTILE, title='"><b>') == (
        '<text title="&#34;&gt;&lt;b&gt;">&lt;script&gt;alert(&#39;pages&#39;)&lt;/script&gt;</text>'
    )


def test_progress_is_a_cell_per_trial_or_a_bar_per_arm() -> None:
    small = plot_schedule(Cells(["sync", "async"], 3, {("sync", 0): "done", ("async", 0): "running"}))
    assert str(small.svg).count("cell planned") == 2 * 4
    assert str(small.svg).count("cell running") == 2
    many = [f"arm {number}" for number in range(40)]
    large = plot_schedule(Cells(many, 200, {("arm 0", block): "done" for block in range(100)}))
    assert len(large.rows) > MOST_CELLS
    assert str(large.svg).count("<rect") == 2 * 40 * 3


def test_a_sparkline_stays_in_its_box() -> None:
    svg = str(draw_sparkline([400.0, -90.0, 0.1], 2.0, "slower"))
    heights = [float(y) for y in re.findall(r'cy="([-0-9.]+)"', svg)]
    assert all(0 <= y <= 24 for y in heights)
    assert "style" not in svg
    assert "no block yet" in str(draw_sparkline([], 2.0, None))


@given(st.floats(1e-6, 1e9), st.floats(1.001, 1e9), st.integers(2, 10))
def test_log_ticks_are_few_and_inside(low: float, factor: float, most: int) -> None:
    scale = Log(low, low * factor, 0, 100)
    ticks = scale.ticks(most)
    assert len(ticks) <= most
    assert all(low * 0.99 <= tick <= low * factor * 1.01 for tick in ticks)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 10))
def test_linear_ticks_are_few_and_inside(low: float, span: float, most: int) -> None:
    ticks = Linear(low, low + span, 0, 100).ticks(most)
    assert len(ticks) <= most + 1


def test_a_range_of_equal_values_has_a_width() -> None:
    low, high = spread_around([5.0, 5.0])
    assert low < 5.0 < high
    assert spread_around([]) == (0.0, 1.0)


@pytest.mark.parametrize(("value", "text"), [(0.0, "0"), (-20.0, "−20"), (2500.0, "2,500"), (0.05, "0.05")])
def test_ticks_read_as_numbers(value: float, text: str) -> None:
    assert write_tick(value) == text
