"""The main job: POST an experiment, real vLLM runs it in both modes, GET an honest comparison."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from benchmarks.support.lab import Lab

pytestmark = pytest.mark.timeout(600)

EXAMPLE = Path(__file__).parents[2] / "examples" / "sync-vs-async.yaml"
SAMPLES, TOKENS, BLOCKS = 32, 128, 10


@pytest.fixture(scope="module")
def experiment_id(lab: Lab) -> str:
    """The README's experiment, POSTed as the README does, at its end."""
    response = lab.http.post(
        "/v1/experiments", content=EXAMPLE.read_bytes(), headers={"Content-Type": "application/yaml"}
    )
    assert response.status_code == 201, response.text
    found: str = response.json()["id"]
    ended = lab.ended(found, within_s=500.0)
    assert ended["status"] == "succeeded", ended
    return found


@pytest.fixture(scope="module")
def results(lab: Lab, experiment_id: str) -> dict[str, Any]:
    return lab.results(experiment_id)


def requests_of(lab: Lab, experiment_id: str, arm: str, trial: int) -> list[dict[str, Any]]:
    response = lab.http.get(
        f"/v1/experiments/{experiment_id}/requests", params={"arm": arm, "trial": trial, "format": "ndjson"}
    )
    return [json.loads(line) for line in response.text.splitlines()]


def trials_of(results: dict[str, Any], arm: str) -> list[dict[str, Any]]:
    return [trial for trial in results["trials"] if trial["arm"] == arm and trial["phase"] == "measured"]


def test_the_order_is_abba(results: dict[str, Any]) -> None:
    measured = [trial["arm"] for trial in results["trials"] if trial["phase"] == "measured"]
    assert measured[:4] == ["sync", "async", "async", "sync"]
    # More, if other processes disturbed a block, which is then run again.
    assert len(measured) >= 2 * BLOCKS


@pytest.mark.parametrize("arm", ["sync", "async"])
def test_both_modes_leave_a_record_of_every_sample_with_the_engine_s_own_times(
    lab: Lab, experiment_id: str, results: dict[str, Any], arm: str
) -> None:
    for trial in trials_of(results, arm)[:3]:
        records = requests_of(lab, experiment_id, arm, trial["slot"])
        assert len(records) == SAMPLES
        for record in records:
            assert record["prompt_tokens"] == TOKENS
            assert record["output_tokens"] == TOKENS
            assert record["finish_reason"] == "length"
            assert record["cached_tokens"] == 0
            times = [
                record[f"{name}_s"]
                for name in ("arrived", "sent", "queued", "scheduled", "first_token", "last_token", "delivered")
            ]
            assert times == sorted(times)


def test_sync_samples_are_delivered_together_and_async_ones_as_they_are_done(
    lab: Lab, experiment_id: str, results: dict[str, Any]
) -> None:
    sync = requests_of(lab, experiment_id, "sync", trials_of(results, "sync")[0]["slot"])
    other = requests_of(lab, experiment_id, "async", trials_of(results, "async")[0]["slot"])
    assert len({record["delivered_s"] for record in sync}) == 1
    assert len({record["delivered_s"] for record in other}) > 1


@pytest.mark.parametrize("arm", ["sync", "async"])
def test_throughput_is_what_the_records_say(lab: Lab, experiment_id: str, results: dict[str, Any], arm: str) -> None:
    trial = trials_of(results, arm)[0]
    records = requests_of(lab, experiment_id, arm, trial["slot"])
    duration = max(r["delivered_s"] for r in records) - min(r["arrived_s"] for r in records)
    assert trial["metrics"]["duration_s"] == pytest.approx(duration)
    assert trial["metrics"]["output_throughput"] == pytest.approx(SAMPLES * TOKENS / duration)
    assert trial["metrics"]["decode_steps"] >= TOKENS - 1


def test_both_modes_generate_the_same_tokens(results: dict[str, Any]) -> None:
    fairness = results["fairness"]
    assert fairness["equal"]
    expected = len(trials_of(results, "sync")) * SAMPLES * TOKENS
    assert fairness["output_tokens"] == {"sync": expected, "async": expected}
    assert fairness["identical_outputs_pct"] == 100.0


def test_the_engines_differ_only_in_how_they_are_driven(results: dict[str, Any]) -> None:
    parity = results["parity"]
    assert parity["undeclared"] == []
    assert parity["equal"]
    assert "driver.api" in {difference["key"] for difference in parity["declared"]}


def test_the_comparison_has_an_interval_and_the_summary_says_no_more_than_it(results: dict[str, Any]) -> None:
    primary = next(c for c in results["comparisons"] if c["metric"] == "output_throughput")
    assert primary["primary"]
    dropped = {block["block"] for block in primary["dropped_blocks"]}
    assert primary["pairs"] + len(dropped) == len(trials_of(results, "sync"))
    if primary["pairs"] >= 2:
        low, high = primary["interval_pct"]
        assert low <= primary["change_pct"] <= high
    else:  # other processes kept the host busy all the time: no number is better than a wrong one
        assert primary["verdict"] in ("inconclusive", "confounded")
    assert primary["verdict"] in ("same", "inconclusive", "faster", "slower", "confounded")
    assert "async" in results["summary"]
    assert results["complete"]
    assert not results["simulated"]


def test_the_environment_names_the_engine_and_the_host(results: dict[str, Any]) -> None:
    environment = results["environment"]
    assert environment["vllm"]
    assert environment["fingerprint"]


def test_the_timeline_accounts_for_every_token(lab: Lab, experiment_id: str, results: dict[str, Any]) -> None:
    slot = trials_of(results, "async")[0]["slot"]
    timeline = lab.http.get(f"/v1/experiments/{experiment_id}/timeline", params={"trial": slot}).json()
    samples = timeline["items"] if "items" in timeline else timeline["trials"][0]["samples"]
    assert sum(sample["output_tokens"] for sample in samples) == SAMPLES * TOKENS
    assert max(sample["running"] for sample in samples) <= SAMPLES


def test_records_come_as_csv_and_parquet_too(lab: Lab, experiment_id: str) -> None:
    url = f"/v1/experiments/{experiment_id}/requests"
    rows = list(csv.DictReader(io.StringIO(lab.http.get(url, params={"format": "csv"}).text)))
    table = pq.read_table(io.BytesIO(lab.http.get(url, params={"format": "parquet"}).content))
    assert len(rows) == table.num_rows
    assert len(rows) >= 2 * BLOCKS * SAMPLES


def test_nothing_is_left_running(lab: Lab, experiment_id: str) -> None:
    assert experiment_id
    assert lab.no_engine_is_left()
