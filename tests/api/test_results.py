"""Results, request records, timelines."""

import csv
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.measure.metrics import summarise
from app.measure.parts import TimePart
from app.settings import Settings
from app.spec.experiment import ServiceLevels
from app.store import queue, trials
from app.store.database import Database
from tests.support.builders import a_record, a_result, an_engine_sample, planned
from tests.support.specs import SPEC
from tests.support.work import claim, finish, run_steps, work_off

HERE = "/v1/experiments"


@pytest.fixture
def experiment(client: TestClient) -> str:
    """A queued experiment."""
    created: str = client.post(HERE, json=SPEC).json()["id"]
    return created


@pytest.fixture(scope="module")
def archive(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client of an application that has run one experiment."""
    directory = tmp_path_factory.mktemp("archive")
    shutil.copyfile(migrated_sqlite, directory / "rollout-lab.sqlite")
    settings = Settings(data_dir=directory)
    database = Database(settings.url)
    with TestClient(create_app(settings)) as client:
        client.post(HERE, json=SPEC)
        work_off(database)
        database.dispose()
        yield client


@pytest.fixture(scope="module")
def done(archive: TestClient) -> str:
    """That experiment: 12 trials of 4 samples."""
    found: str = archive.get(HERE).json()["items"][0]["id"]
    return found


def test_results_of_a_finished_experiment_say_what_was_found(archive: TestClient, done: str) -> None:
    found = archive.get(f"{HERE}/{done}/results").json()
    assert (found["experiment_id"], found["status"], found["complete"]) == (done, "succeeded", True)
    assert found["simulated"] is True
    primary = next(c for c in found["comparisons"] if c["primary"] and c["metric"] == "output_throughput")
    assert primary["verdict"] == "slower"
    assert primary["ratio"] == pytest.approx(10 / 12)
    assert "async" in found["summary"]
    assert archive.get(f"{HERE}/{done}").json()["verdict"] == "slower"


def test_results_grow_while_the_experiment_runs(client: TestClient, experiment: str, db: Database) -> None:
    path = f"{HERE}/{experiment}/results"
    waiting = client.get(path).json()
    assert (waiting["status"], waiting["complete"], waiting["trials"]) == ("queued", False, [])
    claimed = claim(db)
    steps = run_steps(db, claimed)
    for _ in range(6):
        next(steps)
    partial = client.get(path)
    assert partial.json()["complete"] is False
    assert [trial["arm"] for trial in partial.json()["trials"]] == ["sync", "async", "sync", "async", "async", "sync"]
    for _ in steps:
        pass
    finish(db, claimed)
    assert client.get(path).json()["complete"] is True


def test_unchanged_results_are_not_sent_twice(client: TestClient, experiment: str, db: Database) -> None:
    path = f"{HERE}/{experiment}/results"
    etag = client.get(path).headers["ETag"]
    assert client.get(path, headers={"If-None-Match": etag}).status_code == 304
    work_off(db)
    changed = client.get(path, headers={"If-None-Match": etag})
    assert changed.status_code == 200
    assert client.get(path, headers={"If-None-Match": changed.headers["ETag"]}).status_code == 304


def test_results_change_with_every_trial_and_with_nothing_else(
    client: TestClient, experiment: str, db: Database
) -> None:
    path = f"{HERE}/{experiment}/results"
    claimed = claim(db)
    steps = run_steps(db, claimed)
    tags = []
    for _ in range(3):
        next(steps)
        tags.append(client.get(path).headers["ETag"])
        queue.beat(db, claimed.lease, 30.0)
        assert client.get(path, headers={"If-None-Match": tags[-1]}).status_code == 304
    assert len(set(tags)) == 3


def test_results_of_a_lost_attempt_keep_its_trials(client: TestClient, experiment: str, db: Database) -> None:
    claimed = claim(db)
    steps = run_steps(db, claimed)
    for _ in range(6):
        next(steps)
    queue.request_cancel(db, claimed.lease.experiment_id)
    queue.hand_back(db, claimed.lease, "the worker goes")
    found = client.get(f"{HERE}/{experiment}/results").json()
    assert (found["status"], found["complete"]) == ("cancelled", False)
    assert len(found["trials"]) == 6


# --- request records -----------------------------------------------------------------------------------------------


def pages(client: TestClient, path: str, **parameters: Any) -> Iterator[list[dict[str, Any]]]:
    cursor: str | None = None
    while True:
        found = client.get(path, params=parameters | ({"cursor": cursor} if cursor else {})).json()
        yield found["items"]
        cursor = found["next_cursor"]
        if cursor is None:
            return


@pytest.mark.parametrize("limit", [3, 4, 5, 47, 48, 1000])
def test_records_come_in_pages_of_any_size(archive: TestClient, done: str, limit: int) -> None:
    found = list(pages(archive, f"{HERE}/{done}/requests", limit=limit))
    assert all(len(page) == limit for page in found[:-1])
    rows = [(row["trial"], row["prompt_index"], row["sample_index"]) for page in found for row in page]
    assert rows == [(trial, prompt, sample) for trial in range(12) for prompt in (0, 1) for sample in (0, 1)]


def test_records_can_be_of_one_arm_or_trial(archive: TestClient, done: str) -> None:
    path = f"{HERE}/{done}/requests"
    (of_arm,) = pages(archive, path, arm="async")
    assert {row["trial"] for row in of_arm} == {1, 2, 5, 6, 9, 10}
    assert {row["arm"] for row in of_arm} == {"async"}
    (of_trial,) = pages(archive, path, trial=3)
    assert [(row["trial"], row["block"], row["arm"]) for row in of_trial] == [(3, 1, "sync")] * 4
    assert list(pages(archive, path, trial=3, arm="async")) == [[]]


def test_records_of_an_arm_come_in_pages_too(archive: TestClient, done: str) -> None:
    found = list(pages(archive, f"{HERE}/{done}/requests", arm="async", limit=5))
    assert [len(page) for page in found] == [5, 5, 5, 5, 4]


@pytest.mark.parametrize(
    ("parameters", "parameter", "said"),
    [
        ({"arm": "nobody"}, "arm", "no arm is called 'nobody'; there are sync, async"),
        ({"trial": 12}, "trial", "the trials are 0 to 11"),
        ({"format": "xlsx"}, "format", "must be 'json', 'ndjson', 'csv' or 'parquet'"),
        ({"cursor": "///"}, "cursor", "not a cursor; use next_cursor of the page before"),
        ({"cursor": "MTox" * 3}, "cursor", "not a cursor; use next_cursor of the page before"),
        ({"limit": 10_001}, "limit", "must be less than or equal to 10000"),
        ({"arms": "sync"}, "arms", "there is no such parameter"),
    ],
)
def test_wrong_parameters_are_named(
    archive: TestClient, done: str, parameters: dict[str, Any], parameter: str, said: str
) -> None:
    response = archive.get(f"{HERE}/{done}/requests", params=parameters)
    assert response.status_code == 422
    assert response.json()["errors"] == [{"parameter": parameter, "detail": said}]


def test_every_format_has_the_same_rows(archive: TestClient, done: str) -> None:
    path = f"{HERE}/{done}/requests"
    (rows,) = pages(archive, path)

    def whole(kind: str) -> Any:
        response = archive.get(path, params={"format": kind})
        assert response.headers["Content-Disposition"] == f'attachment; filename="{done}-requests.{kind}"'
        return response

    assert [json.loads(line) for line in whole("ndjson").text.splitlines()] == rows
    assert pq.read_table(io.BytesIO(whole("parquet").content)).to_pylist() == rows
    from_csv = list(csv.DictReader(io.StringIO(whole("csv").text)))
    assert list(from_csv[0]) == list(rows[0])
    assert [row["delivered_s"] for row in from_csv] == [str(row["delivered_s"]) for row in rows]


def test_no_records_are_an_empty_file_with_columns(client: TestClient, experiment: str) -> None:
    path = f"{HERE}/{experiment}/requests"
    assert client.get(path).json() == {"items": [], "next_cursor": None}
    assert client.get(path, params={"format": "ndjson"}).text == ""
    assert client.get(path, params={"format": "csv"}).text.startswith("attempt,trial,block,arm,request_id")
    table = pq.read_table(io.BytesIO(client.get(path, params={"format": "parquet"}).content))
    assert (len(table), table.column_names[:4]) == (0, ["attempt", "trial", "block", "arm"])


@pytest.mark.parametrize("query", ["", "?format=csv", "?format=ndjson", "?format=parquet", "?limit=3"])
def test_unchanged_records_are_not_sent_twice(archive: TestClient, done: str, query: str) -> None:
    path = f"{HERE}/{done}/requests{query}"
    etag = archive.get(path).headers["ETag"]
    assert archive.get(path, headers={"If-None-Match": etag}).status_code == 304
    assert archive.get(f"{HERE}/{done}/requests?arm=sync", headers={"If-None-Match": etag}).status_code == 200


# --- timelines -----------------------------------------------------------------------------------------------------


@pytest.fixture
def traced(experiment: str, db: Database) -> str:
    """A running experiment with one trial whose engine was watched."""
    lease = claim(db).lease
    records = (
        a_record(itl_ms=(10.0, 20.0)),
        a_record(prompt_index=1, queued_s=None, scheduled_s=None, first_token_s=None, last_token_s=None),
    )
    samples = (an_engine_sample(0.1, running=2, kv_cache_usage_pct=12.5), an_engine_sample(0.2, running=1))
    result = a_result(*records, planned=planned("async", block=0, position=1), timeline=samples)
    trials.save_trial(db, lease, result, summarise(result, 1, gpus=0, service_levels=ServiceLevels()))
    return experiment


def test_a_timeline_is_the_engines_state_step_by_step(client: TestClient, traced: str) -> None:
    (found,) = pages(client, f"{HERE}/{traced}/timeline")
    assert [(row["at_s"], row["running"], row["trial"], row["arm"]) for row in found] == [
        (0.1, 2, 1, "async"),
        (0.2, 1, 1, "async"),
    ]
    assert [len(page) for page in pages(client, f"{HERE}/{traced}/timeline", limit=1)] == [1, 1]


def test_gaps_between_tokens_survive_every_format(client: TestClient, traced: str) -> None:
    path = f"{HERE}/{traced}/requests"
    assert client.get(path).json()["items"][0]["itl_ms"] == [10.0, 20.0]
    row = next(csv.DictReader(io.StringIO(client.get(path, params={"format": "csv"}).text)))
    assert row["itl_ms"] == "[10.0,20.0]"
    table = pq.read_table(io.BytesIO(client.get(path, params={"format": "parquet"}).content))
    assert table["itl_ms"].to_pylist() == [[10.0, 20.0], None]


def test_a_name_that_a_spreadsheet_would_run_stays_text(client: TestClient, db: Database) -> None:
    arms = [SPEC["arms"][0] | {"name": "=1+1"}, SPEC["arms"][1]]
    queued = client.post(HERE, json=SPEC | {"arms": arms, "baseline": "=1+1"}).json()["id"]
    work_off(db)
    path = f"{HERE}/{queued}/requests"
    names = {row["arm"] for row in csv.DictReader(io.StringIO(client.get(path, params={"format": "csv"}).text))}
    assert names == {"'=1+1", "async"}
    assert {row["arm"] for row in client.get(path).json()["items"]} == {"=1+1", "async"}


def test_a_trace_is_what_perfetto_opens(client: TestClient, traced: str) -> None:
    """Trace Event Format: processes named, complete events with durations, async ones in pairs, numeric counters."""
    response = client.get(f"{HERE}/{traced}/timeline", params={"format": "perfetto"})
    events = response.json()["traceEvents"]
    assert [(e["pid"], e["args"]["name"]) for e in events if e["ph"] == "M"] == [(1, "sync"), (2, "async")]
    (trial,) = [e for e in events if e["ph"] == "X"]
    assert (trial["ts"], trial["dur"], trial["pid"]) == (0.0, 1_500_000.0, 2)
    running = [e["args"]["running"] for e in events if e["ph"] == "C" and e["name"] == "requests"]
    assert running == [2, 1]
    begins = [(e["id"], e["name"], e["ts"]) for e in events if e["ph"] == "b"]
    ends = [(e["id"], e["name"]) for e in events if e["ph"] == "e"]
    assert [begin[:2] for begin in begins] == ends
    whole = " + ".join(list(TimePart)[1:])  # nothing is known between its call and its end
    assert begins == [("1/0-0", "prefill", 0.0), ("1/0-0", "decode", 100_000.0), ("1/1-0", whole, 0.0)]


def test_a_trace_of_nothing_is_a_trace(client: TestClient, experiment: str) -> None:
    events = client.get(f"{HERE}/{experiment}/timeline", params={"format": "perfetto"}).json()["traceEvents"]
    assert {event["ph"] for event in events} == {"M"}


@pytest.mark.parametrize("rows", ["requests?format=ndjson", "requests?format=parquet", "timeline?format=perfetto"])
def test_a_file_of_an_arm_that_is_not_there_is_refused_before_it_begins(
    client: TestClient, experiment: str, rows: str
) -> None:
    response = client.get(f"{HERE}/{experiment}/{rows}&arm=nobody")
    assert response.status_code == 422
    assert response.json()["errors"][0]["parameter"] == "arm"


# --- exports -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "media_type", "begins"),
    [
        ("vllm-bench", "application/json", '[{"date":'),
        ("pytorch-benchmark", "application/json", '[{"benchmark":'),
        ("junit", "application/xml", "<?xml"),
        ("markdown", "text/markdown; charset=utf-8", "### sync against async"),
    ],
)
def test_results_are_exported(archive: TestClient, done: str, kind: str, media_type: str, begins: str) -> None:
    path = f"{HERE}/{done}/export"
    response = archive.get(path, params={"format": kind})
    assert response.status_code == 200
    assert response.headers["content-type"] == media_type
    assert response.text.startswith(begins)
    again = archive.get(path, params={"format": kind}, headers={"If-None-Match": response.headers["ETag"]})
    assert again.status_code == 304


def test_an_export_for_vllm_bench_rests_on_the_request_records(archive: TestClient, done: str) -> None:
    for trial in archive.get(f"{HERE}/{done}/export", params={"format": "vllm-bench"}).json():
        of = {"trial": trial["trial"], "arm": trial["label"], "format": "ndjson"}
        lines = archive.get(f"{HERE}/{done}/requests", params=of).text.splitlines()
        records = [json.loads(line) for line in lines]
        assert trial["completed"] == len(records) == 4
        each = [(r["delivered_s"] - r["first_token_s"]) / (r["output_tokens"] - 1) for r in records]
        assert trial["mean_tpot_ms"] == pytest.approx(1000 * sum(each) / 4)


def test_partial_results_are_exported_too(client: TestClient, experiment: str) -> None:
    assert client.get(f"{HERE}/{experiment}/export", params={"format": "junit"}).status_code == 200
    assert client.get(f"{HERE}/{experiment}/export", params={"format": "vllm-bench"}).json() == []


def test_an_unknown_export_is_refused(archive: TestClient, done: str) -> None:
    for query in ("", "?format=excel"):
        response = archive.get(f"{HERE}/{done}/export{query}")
        assert response.status_code == 422
        assert response.json()["errors"][0]["parameter"] == "format"
