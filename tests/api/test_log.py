"""What the service writes down."""

import re

from benchmarks.support.service import Service, eventually
from tests.support.specs import SPEC


def line_with(service: Service, *parts: str) -> dict[str, str]:
    """The fields of the one line that has all of these."""

    def look() -> list[str]:
        return [line for line in service.log.read_text().splitlines() if all(part in line for part in parts)]

    (line,) = eventually(look)
    return dict(re.findall(r"(\w+)=(\S+)", line))


def test_a_line_names_the_request_and_the_experiment(service: Service) -> None:
    queued = service.http.post("/v1/experiments", json=SPEC, headers={"X-Request-ID": "submitting-it"}).json()["id"]
    service.http.post(f"/v1/experiments/{queued}/cancel", headers={"X-Request-ID": "cancelling-it"})

    for request_id, status in (("submitting-it", "201"), ("cancelling-it", "200")):
        found = line_with(service, " request ", request_id)
        assert (found["experiment_id"], found["status"], found["method"]) == (queued, status, "POST")


def test_a_request_without_a_name_is_given_one_that_the_answer_tells(service: Service) -> None:
    response = service.http.get("/v1/experiments/nobody")
    request_id = response.headers["X-Request-ID"]
    assert response.json()["instance"] == f"urn:rollout-lab:request:{request_id}"
    assert line_with(service, " request ", request_id)["experiment_id"] == "nobody"


def test_polls_that_find_nothing_new_leave_no_line(service: Service) -> None:
    queued = service.http.post("/v1/experiments", json=SPEC).json()["id"]
    here = f"/v1/experiments/{queued}/results"
    tag = service.http.get(here, headers={"X-Request-ID": "first-look"}).headers["ETag"]
    again = service.http.get(here, headers={"X-Request-ID": "second-look", "If-None-Match": tag})
    assert again.status_code == 304
    service.http.get(here, headers={"X-Request-ID": "third-look"})

    assert line_with(service, " request ", "first-look")["status"] == "200"
    assert line_with(service, " request ", "third-look")["status"] == "200"
    assert "second-look" not in service.log.read_text()
    service.http.post(f"/v1/experiments/{queued}/cancel")


def test_what_a_terminal_would_obey_is_written_out(service: Service) -> None:
    service.http.get("/v1/%1b%5b31mred%0a2026-12-01%20[info]%20forged", headers={"X-Request-ID": "a-forgery"})
    line_with(service, " request ", "a-forgery")
    (line,) = [one for one in service.log.read_text().splitlines() if "a-forgery" in one]
    assert "u001b[31mred" in line
    assert "u000a2026-12-01 [info] forged" in line
    assert "\x1b" not in service.log.read_text()
