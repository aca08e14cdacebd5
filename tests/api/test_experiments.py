"""Submitting, listing, looking, cancelling."""

from typing import Any

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

from app.spec.lifecycle import Status
from app.store import experiments, queue
from app.store.database import Database
from app.store.ids import ExperimentId
from app.store.tables import experiments as table
from tests.support.specs import SPEC, YAML, a_spec
from tests.support.store import expire, fail
from tests.support.work import claim, run_steps, work_off

HERE = "/v1/experiments"
YAML_TYPE = {"Content-Type": "application/yaml"}


def submit(client: TestClient, spec: dict[str, Any] = SPEC, key: str | None = None) -> Any:
    response = client.post(HERE, json=spec, headers={"Idempotency-Key": key} if key else {})
    assert response.status_code == 201, response.text
    return response.json()


def test_a_submitted_experiment_is_queued(client: TestClient) -> None:
    response = client.post(HERE, json=SPEC)
    assert response.status_code == 201
    found = response.json()
    assert response.headers["Location"] == f"{HERE}/{found['id']}" == found["links"]["self"]
    assert (found["status"], found["queue_position"], found["attempt"]) == ("queued", 1, 0)
    assert found["spec"] == SPEC
    assert client.get(found["links"]["self"]).json() == found


def test_yaml_means_what_json_means(client: TestClient) -> None:
    from_yaml = client.post(HERE, content=YAML, headers=YAML_TYPE)
    assert from_yaml.status_code == 201
    assert from_yaml.json()["spec"]["labels"] == {"suite": "nightly"}
    assert [arm["name"] for arm in from_yaml.json()["resolved"]["arms"]] == ["sync", "async"]


def test_the_resolved_experiment_spells_every_default_out(client: TestClient) -> None:
    found = submit(client)
    assert found["resolved"]["arms"][0]["engine"]["max_num_seqs"] == 256
    assert found["plan"]["order"] == "ABBAABBAABBA"
    assert found["plan"]["trials"] == 12
    assert len(found["plan"]["details"]["trials"]) == 14


def test_a_repeated_idempotency_key_gives_the_first_experiment(client: TestClient) -> None:
    first = submit(client, key="tonight")
    again = client.post(HERE, json=SPEC, headers={"Idempotency-Key": "tonight"})
    assert again.status_code == 200
    assert again.json()["id"] == first["id"]
    assert again.headers["Location"] == f"{HERE}/{first['id']}"


def test_an_idempotency_key_with_another_body_is_refused(client: TestClient) -> None:
    submit(client, key="tonight")
    other = client.post(HERE, json=a_spec(name="other"), headers={"Idempotency-Key": "tonight"})
    assert other.status_code == 422
    assert other.json()["type"] == "/v1/problems/idempotency-mismatch"


def test_without_a_key_every_submission_is_new(client: TestClient) -> None:
    assert submit(client)["id"] != submit(client)["id"]


# --- dry runs ------------------------------------------------------------------------------------------------------


def test_a_dry_run_says_what_would_happen_and_queues_nothing(client: TestClient) -> None:
    response = client.post(HERE, params={"dry_run": "true"}, json=SPEC)
    assert response.status_code == 200
    found = response.json()
    assert found["plan"]["order"] == "ABBAABBAABBA"
    assert found["cost"] == {
        "trials": 12,
        "warmup_trials": 2,
        "engine_starts": 2,
        "samples": 56,
        "order": "ABBAABBAABBA",
        "estimated_s": None,
        "estimated_gpu_s": None,
        "noise_pct": None,
        "detectable_effect_pct": None,
        "based_on": None,
        "reason": "no earlier experiment ran these arms with this model and workload",
    }
    assert client.get(HERE).json()["items"] == []


def test_a_dry_run_estimates_from_an_earlier_experiment_only(client: TestClient, db: Database) -> None:
    earlier = submit(client)["id"]
    work_off(db)
    renamed = [arm | {"name": arm["name"].upper()} for arm in SPEC["arms"]]
    found = client.post(HERE, params={"dry_run": "true"}, json=a_spec(arms=renamed, plan={"blocks": 2})).json()
    assert found["cost"]["based_on"] == earlier
    assert found["cost"]["estimated_s"] >= 3.0  # two engines of 1.5 s each
    assert found["cost"]["reason"] is None
    other_work = SPEC["workload"] | {"samples_per_prompt": 3}
    found = client.post(HERE, params={"dry_run": "true"}, json=a_spec(workload=other_work)).json()
    assert found["cost"]["estimated_s"] is None


def test_a_dry_run_warns_of_what_will_not_show(client: TestClient) -> None:
    spec = a_spec(plan={"blocks": 1, "warmup_trials": 0}, engine={"max_num_seqs": None})
    warnings = client.post(HERE, params={"dry_run": "true"}, json=spec).json()["warnings"]
    assert warnings == [
        "simulated: timings come from the spec, not from an engine",
        "left to vLLM, which may choose differently for each arm: max_num_seqs",
        "one block: no interval, so no verdict; plan.blocks: 6 is the default",
        "no warm-up: the first trial of every arm pays for it",
        "percentiles without a value: p90 needs 64 values, got 4; p99 needs 662 values, got 4 (per trial)",
    ]


# --- lists ---------------------------------------------------------------------------------------------------------


def test_lists_are_newest_first_and_come_in_pages(client: TestClient) -> None:
    ids = [submit(client, a_spec(name=f"number {index}"))["id"] for index in range(5)]
    first = client.get(HERE, params={"limit": 2}).json()
    second = client.get(HERE, params={"limit": 2, "cursor": first["next_cursor"]}).json()
    third = client.get(HERE, params={"limit": 2, "cursor": second["next_cursor"]}).json()
    assert [item["id"] for page in (first, second, third) for item in page["items"]] == ids[::-1]
    assert third["next_cursor"] is None


def test_lists_can_be_filtered(client: TestClient, db: Database) -> None:
    nightly = submit(client, a_spec(name="Nightly run", labels={"suite": "nightly", "gpu": "h200"}))["id"]
    demo = submit(client, a_spec(name="a demo", labels={"suite": "demo"}))["id"]
    queue.request_cancel(db, ExperimentId(demo))

    def ids(**parameters: Any) -> list[str]:
        return [item["id"] for item in client.get(HERE, params=parameters).json()["items"]]

    assert ids(status="cancelled") == [demo]
    assert ids(status=["cancelled", "queued"]) == [demo, nightly]
    assert ids(label="suite:nightly") == [nightly]
    assert ids(label=["suite:nightly", "gpu:h200"]) == [nightly]
    assert ids(label=["suite:nightly", "gpu:none"]) == []
    assert ids(name="NIGHTLY") == [nightly]
    assert ids(model="tiny-qwen2") == [demo, nightly]
    assert ids(model="other") == []


def test_lists_are_sorted_as_asked_and_their_cursors_go_on_so(client: TestClient) -> None:
    ids = {name: submit(client, a_spec(name=name))["id"] for name in ("b", "c", "a")}

    def all_of(**parameters: Any) -> list[str]:
        found, cursor = [], None
        while True:
            asked = parameters | {"limit": 1} | ({"cursor": cursor} if cursor else {})
            page = client.get(HERE, params=asked).json()
            found += [item["name"] for item in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    assert all_of(sort="name") == ["a", "b", "c"]
    assert all_of(sort="name", order="desc") == ["c", "b", "a"]
    assert all_of(order="asc") == ["b", "c", "a"]
    assert all_of(sort="finished_at") == []
    client.post(f"{HERE}/{ids['c']}/cancel")
    client.post(f"{HERE}/{ids['a']}/cancel")
    assert all_of(sort="finished_at") == ["a", "c"]


def test_lists_are_narrowed_to_a_range_of_dates(client: TestClient) -> None:
    first, second = (submit(client, a_spec(name=name))["created_at"] for name in "ab")

    def names(**parameters: Any) -> list[str]:
        return [item["name"] for item in client.get(HERE, params=parameters).json()["items"]]

    assert names(created_after=second) == ["b"]
    assert names(created_before=second) == ["a"]
    assert names(created_after=first, created_before="2999-01-01") == ["b", "a"]
    assert names(created_after="2999-01-01") == []
    assert names(created_before="2020-02-29T23:00:00-02:00") == []
    assert names(created_after="", created_before="") == ["b", "a"]


@pytest.mark.parametrize("parameter", ["created_after", "created_before"])
@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "2026-02-30",
        "31.01.2026",
        "2026-01-31T12:00:00",
        "2026-1-5",
        "1767225600",
        "0001-01-01T00:00:00+14:00",
    ],
)
def test_what_is_no_date_is_refused_with_what_is(client: TestClient, parameter: str, text: str) -> None:
    response = client.get(HERE, params={parameter: text})
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["parameter"] == parameter
    assert error["detail"] == (
        f"'{text}' is neither a date, like 2026-01-31, nor a time with its zone, like 2026-01-31T12:00:00Z"
    )


def test_a_plus_that_an_address_has_swallowed_is_told(client: TestClient) -> None:
    response = client.get(f"{HERE}?created_after=2026-01-31T12:00:00+02:00")
    assert response.json()["errors"][0]["detail"].endswith("; in an address a + is written %2B")
    assert client.get(f"{HERE}?created_after=2026-01-31T12:00:00%2B02:00").status_code == 200


@pytest.mark.parametrize(
    ("query", "parameter", "said"),
    [
        ("sort=age", "sort", "must be 'created_at', 'finished_at' or 'name'"),
        ("order=up", "order", "must be 'asc' or 'desc'"),
        ("limit=0", "limit", "must be greater than or equal to 1"),
        ("limit=many", "limit", "must be a valid integer"),
        ("status=done", "status.0", "must be 'queued', 'running'"),
        ("statsu=queued", "statsu", "there is no such parameter"),
        ("label=nightly", "label", "'nightly' is not key:value"),
        ("label=a:1&label=a:2", "label", "'a' cannot have two values"),
        ("cursor=nonsense", "cursor", "not a cursor; use next_cursor of the page before"),
    ],
)
def test_a_wrong_parameter_is_named(client: TestClient, query: str, parameter: str, said: str) -> None:
    response = client.get(f"{HERE}?{query}")
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["parameter"] == parameter
    assert error["detail"].startswith(said)


# --- one -----------------------------------------------------------------------------------------------------------


def test_a_running_experiment_says_how_far_it_is(client: TestClient, db: Database) -> None:
    experiment = submit(client)["id"]
    steps = run_steps(db, claim(db))
    for _ in range(5):
        next(steps)
    found = client.get(f"{HERE}/{experiment}").json()
    assert (found["status"], found["attempt"], found["owner"]) == ("running", 1, "worker-1")
    assert found["queue_position"] is None
    assert found["progress"] == {
        "step": "measuring",
        "trials_done": 3,
        "trials_total": 12,
        "current": {"arm": "async", "block": 1},
        "eta_s": 1.0,
    }
    assert [attempt["outcome"] for attempt in found["attempts"]] == [None]


def test_an_unknown_experiment_is_not_found(client: TestClient) -> None:
    for path in ("", "/events", "/results", "/requests", "/timeline"):
        response = client.get(f"{HERE}/nobody{path}")
        assert response.status_code == 404, path
        assert response.json()["detail"] == "there is no experiment nobody"
    assert client.post(f"{HERE}/nobody/cancel").status_code == 404


def test_an_unchanged_experiment_is_not_sent_twice(client: TestClient, db: Database) -> None:
    experiment = submit(client)["id"]
    for path in ("", "/events"):
        first = client.get(f"{HERE}/{experiment}{path}")
        same = client.get(f"{HERE}/{experiment}{path}", headers={"If-None-Match": first.headers["ETag"]})
        assert (same.status_code, same.content) == (304, b"")
        assert same.headers["ETag"] == first.headers["ETag"]
    etag = client.get(f"{HERE}/{experiment}").headers["ETag"]
    claim(db)
    changed = client.get(f"{HERE}/{experiment}", headers={"If-None-Match": f'"other", {etag}'})
    assert changed.status_code == 200
    assert changed.json()["status"] == "running"


@pytest.mark.parametrize("path", ["/v1/experiments", "/v1/profiles", "/v1/models", "/v1/workers"])
def test_lists_have_entity_tags_too(client: TestClient, path: str) -> None:
    first = client.get(path)
    assert client.get(path, headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
    assert client.get(path, headers={"If-None-Match": "*"}).status_code == 304
    assert client.get(path, headers={"If-None-Match": 'W/"other"'}).status_code == 200


# --- cancelling ----------------------------------------------------------------------------------------------------


def test_what_waits_is_cancelled_at_once(client: TestClient) -> None:
    experiment = submit(client)["id"]
    response = client.post(f"{HERE}/{experiment}/cancel")
    assert (response.status_code, response.json()["status"]) == (200, "cancelled")


def test_what_runs_is_asked_to_stop(client: TestClient, db: Database) -> None:
    experiment = submit(client)["id"]
    claimed = claim(db)
    response = client.post(f"{HERE}/{experiment}/cancel")
    assert response.status_code == 202
    assert (response.json()["status"], response.json()["cancel_requested"]) == ("running", True)
    assert queue.beat(db, claimed.lease, 30.0).cancel_requested


def test_what_has_ended_stays_as_it_is(client: TestClient, db: Database) -> None:
    experiment = submit(client)["id"]
    queue.finish(db, claim(db).lease, Status.SUCCEEDED, reason="done")
    response = client.post(f"{HERE}/{experiment}/cancel")
    assert (response.status_code, response.json()["status"]) == (200, "succeeded")
    assert experiments.get(db, ExperimentId(experiment)).item.cancel_requested is False


# --- retrying ------------------------------------------------------------------------------------------------------


def a_failed_experiment(client: TestClient, db: Database) -> str:
    """One that failed in its second attempt; the first was lost."""
    found: str = submit(client, a_spec(limits={"retry_on_loss": True}))["id"]
    expire(db, claim(db).lease.experiment_id)
    queue.reap(db)
    fail(db, claim(db).lease)
    return found


def test_a_failed_experiment_is_retried_as_one_of_its_own(client: TestClient, db: Database) -> None:
    failed = a_failed_experiment(client, db)
    response = client.post(f"{HERE}/{failed}/retry")
    assert response.status_code == 201
    found = response.json()
    assert response.headers["Location"] == f"{HERE}/{found['id']}" != f"{HERE}/{failed}"
    assert (found["status"], found["retry_of"]) == ("queued", failed)
    before = client.get(f"{HERE}/{failed}").json()
    assert before["retries"] == [found["id"]]
    assert before["links"]["retry"] == f"{HERE}/{failed}/retry"
    assert found["spec"] == before["spec"]


def test_errors_of_every_attempt_are_kept(client: TestClient, db: Database) -> None:
    failed = a_failed_experiment(client, db)
    client.post(f"{HERE}/{failed}/retry")
    attempts = client.get(f"{HERE}/{failed}").json()["attempts"]
    assert [(one["attempt"], one["error"]["code"]) for one in attempts] == [(1, "worker_lost"), (2, "engine_died")]


def test_a_repeated_idempotency_key_retries_once(client: TestClient, db: Database) -> None:
    failed = a_failed_experiment(client, db)
    first, again = (client.post(f"{HERE}/{failed}/retry", headers={"Idempotency-Key": "once"}) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    other = client.post(HERE, json=SPEC, headers={"Idempotency-Key": "once"})
    assert other.status_code == 422


@pytest.mark.parametrize("status", ["queued", "running", "succeeded"])
def test_only_what_failed_or_was_cancelled_is_retried(client: TestClient, db: Database, status: str) -> None:
    experiment = submit(client)["id"]
    if status == "running":
        claim(db)
    elif status == "succeeded":
        work_off(db)
    response = client.post(f"{HERE}/{experiment}/retry")
    assert response.status_code == 409
    assert response.json()["type"] == "/v1/problems/conflict"
    assert response.json()["detail"] == (
        f"experiment {experiment} is {status}; only a failed or cancelled one can be retried"
    )
    assert len(client.get(HERE).json()["items"]) == 1


def test_a_cancelled_experiment_can_be_retried_and_one_that_is_not_there_cannot(client: TestClient) -> None:
    experiment = submit(client)["id"]
    client.post(f"{HERE}/{experiment}/cancel")
    assert client.post(f"{HERE}/{experiment}/retry").status_code == 201
    assert client.post(f"{HERE}/nobody/retry").status_code == 404


def test_what_another_version_wrote_is_not_retried(client: TestClient, db: Database) -> None:
    experiment = submit(client)["id"]
    client.post(f"{HERE}/{experiment}/cancel")
    with db.write() as connection:
        connection.execute(update(table).values(spec={"arms": "another language"}))
    response = client.post(f"{HERE}/{experiment}/retry")
    assert response.status_code == 409
    assert response.json()["type"] == "/v1/problems/unreadable-spec"
