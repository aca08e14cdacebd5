"""What the API's description allows, and some of what it does not, sent to the service as it is shipped.

The same requests every time; `ROLLOUT_LAB_EXAMPLES=500 pytest tests/security/test_description.py` sends more.
"""

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from app.openapi import description
from app.settings import Settings
from app.store import queue, tokens, workers
from app.store.actors import Actor
from app.store.tokens import Scope
from benchmarks.support.databases import Postgres, running_postgres
from benchmarks.support.service import Service, serving
from tests.support.builders import a_simulated_spec
from tests.support.specs import SPEC, YAML
from tests.support.work import work_off

EXAMPLES = int(os.environ.get("ROLLOUT_LAB_EXAMPLES", "2"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SUBMIT = "/v1/experiments"
JSON, AS_YAML = "application/json", "application/yaml"
schema = schemathesis.openapi.from_dict(json.loads(description()))
# Specs take minutes to generate from their schema; tests/spec/test_malformed.py has ten thousand for what reads them.
generated = schema.exclude(path=SUBMIT, method="POST")


@dataclass(frozen=True)
class Target:
    """A service that has a finished experiment, and who asks it."""

    service: Service
    headers: dict[str, str]
    finished: str

    def try_out(self, case: schemathesis.Case[Any]) -> int:
        """The status of an answer that is as described."""
        answer = case.call_and_validate(
            base_url=self.service.url, headers=self.headers, checks=CHECKS, timeout=30, allow_redirects=False
        )
        return answer.status_code


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A Postgres server."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def closed(
    request: pytest.FixtureRequest, migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, str, str]]:
    """A service with one token, which opens everything, and one finished experiment."""
    directory = tmp_path_factory.mktemp("target")
    with ExitStack() as stack:
        url = None
        if request.param == "postgres":
            url = stack.enter_context(request.getfixturevalue("postgres").migrated())
        else:
            shutil.copyfile(migrated_sqlite, directory / "rollout-lab.sqlite")
        given = Settings(data_dir=directory, database_url=url, lease_s=3600.0, requests_per_s=1e6)
        service = stack.enter_context(serving(given))
        secret = tokens.create(service.db, "root", Scope.ADMIN, None, Actor("root", "here"))
        workers.announce(service.db, "here", host=socket.gethostname(), pid=1, info={})  # or /readyz says 503
        queue.enqueue(service.db, a_simulated_spec(plan={"blocks": 2, "warmup_trials": 0}))
        yield service, secret, work_off(service.db)


@pytest.fixture(params=["nobody", "root"])
def target(request: pytest.FixtureRequest, closed: tuple[Service, str, str]) -> Target:
    """The service, asked with its token and without."""
    service, secret, finished = closed
    return Target(service, {"Authorization": f"Bearer {secret}"} if request.param == "root" else {}, finished)


@generated.parametrize()
@settings(max_examples=EXAMPLES, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_answer_is_one_that_the_description_names(case: schemathesis.Case[Any], target: Target) -> None:
    target.try_out(case)
    if "experiment_id" in case.path_parameters:
        case.path_parameters["experiment_id"] = target.finished
        target.try_out(case)


def test_so_is_every_answer_to_a_spec(target: Target) -> None:
    operation, again = schema[SUBMIT]["POST"], {"Idempotency-Key": target.finished}
    answers = [
        (201, operation.Case(media_type=JSON, body=SPEC)),
        (201, operation.Case(media_type=JSON, body=SPEC, headers=again)),
        (200, operation.Case(media_type=JSON, body=SPEC, headers=again)),
        (422, operation.Case(media_type=JSON, body=SPEC | {"name": "another"}, headers=again)),
        (200, operation.Case(media_type=JSON, body=SPEC, query={"dry_run": "true"})),
        (422, operation.Case(media_type=JSON, body=SPEC, query={"dry_run": "perhaps"})),
        (422, operation.Case(media_type=JSON, body=[])),
        (422, operation.Case(media_type=JSON, body=SPEC | {"arms": None})),
        (201, operation.Case(media_type=AS_YAML, body=YAML.encode())),
        (422, operation.Case(media_type=AS_YAML, body=b"{")),
        (415, operation.Case(media_type="text/plain", body="model: {}")),
    ]
    expected = [status if target.headers or status == 415 else 401 for status, _ in answers]
    assert [target.try_out(case) for _, case in answers] == expected
