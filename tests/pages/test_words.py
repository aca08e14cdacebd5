"""How numbers, times and names read."""

from app.measure.metrics import METRICS
from app.pages import words


def test_a_change_keeps_its_percent_sign() -> None:
    assert words.write_change(-0.25) == "−0.2\u00a0%"
    assert words.write_interval((-1.0, 0.5)) == "−1.0\u00a0% to +0.5\u00a0%"
    assert words.write_interval(None) == words.write_change(None) == words.write_share(None) == "–"


def test_every_metric_has_a_name_and_an_unknown_one_is_shown_as_it_is() -> None:
    assert all(words.name_metric(key) != key for key in METRICS)
    assert words.name_metric("ttft_ms.p99") == "Time to first token p99"
    assert words.name_metric("moon_phase.p50") == "moon phase p50"
    assert words.find_unit("moon_phase") == words.find_formula("moon_phase") == ""
    assert words.find_direction("moon_phase") == "neutral"


def test_a_name_from_the_right_keeps_its_direction_to_itself() -> None:
    assert words.isolate("async") == "async"
    assert words.isolate("مزامنة") == "\u2068مزامنة\u2069"
    assert words.isolate_names("مزامنة is 2 % slower", ["sync", "مزامنة"]) == "\u2068مزامنة\u2069 is 2 % slower"
    assert words.isolate("a\u202eb") == "\u2068a\u202eb\u2069"


def test_facts_of_a_host_have_units() -> None:
    assert words.name_fact("gpu_memory_mib") == "GPU memory, MiB"
    assert words.name_fact("cpu_cores") == "CPU cores"


def test_names_in_a_description_are_code() -> None:
    assert words.mark_code("as `n` <b>") == "as <code>n</code> &lt;b&gt;"
