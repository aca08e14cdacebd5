"""Writing a spec on a page."""

import json
import re

import pytest
from starlette.testclient import TestClient

from app.pages.submission_form import EXAMPLE
from app.store import experiments
from app.store.ids import ExperimentId
from tests.pages.test_experiment_page import HTMX, page
from tests.support.stories import HOSTILE, Lab

OWN = {"Origin": "http://testserver"}


def checked(client: TestClient, text: str) -> str:
    response = client.post("/submit/check", data={"spec": text}, headers=HTMX)
    assert response.status_code == 200
    return response.text


def test_the_example_is_right_and_says_what_it_would_do(client: TestClient) -> None:
    text = page(client, "/submit")
    assert "What it will do" in text
    assert "12 measured, 2 to warm up" in text
    assert "ABBAABBAABBA" in text
    assert "driver.api" in text


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("profile: vllm-async", "profile: vllm-asink", 15, "unknown profile"),
        ("blocks: 6", "blocks: none", 17, "must be a whole number"),
        ("baseline: sync", "baseline: nobody", 16, "no arm is called"),
        ("labels: {suite: demo}", "labels: {suite: demo", 3, "not YAML"),
        ("samples_per_prompt", "sample_per_prompt", 9, "did you mean"),
        ("labels:", "name:", 2, "is given twice"),
    ],
)
def test_a_mistake_is_named_with_its_line(client: TestClient, old: str, new: str, line: int, said: str) -> None:
    text = checked(client, EXAMPLE.replace(old, new))
    assert said in text
    assert f'data-line="{line}"' in text


def test_json_is_taken_too(client: TestClient) -> None:
    spec = {
        "model": {"preset": "tiny-qwen2"},
        "arms": [{"name": "a", "profile": "vllm-sync"}, {"name": "b", "profile": "vllm-sync"}],
    }
    text = checked(client, json.dumps(spec))
    assert "What it will do" in text
    assert "In nothing: this measures the noise." in text
    assert "/arms/1/engine/max_num_seq" in checked(
        client, json.dumps(spec).replace('"vllm-sync"}]', '"vllm-sync", "engine": {"max_num_seq": 1}}]')
    )


@pytest.mark.parametrize("text", ["", "   ", "[]", "42", "\x00", "a: &x 1", HOSTILE, "{" * 200])
def test_any_text_gets_an_answer(client: TestClient, text: str) -> None:
    found = checked(client, text)
    assert "problem" in found
    assert "<script>" not in found


def submitted(client: TestClient, text: str, ticket: str = "ticket", **headers: str) -> tuple[int, str]:
    response = client.post(
        "/submit", data={"spec": text, "ticket": ticket}, headers=OWN | headers, follow_redirects=False
    )
    return response.status_code, response.headers.get("location", response.text)


def test_a_nervous_finger_queues_once(client: TestClient, lab: Lab) -> None:
    text = EXAMPLE.replace("sync against async", "pressed twice")
    first, second = submitted(client, text), submitted(client, text)
    assert first == second
    assert first[0] == 303
    row = experiments.get(lab.db, ExperimentId(first[1].rpartition("/")[2]))
    assert row.item.name == "pressed twice"
    other = submitted(client, text.replace("pressed twice", "pressed again"))
    assert other != first


def test_a_faulty_spec_comes_back_with_what_was_typed(client: TestClient) -> None:
    status, text = submitted(client, EXAMPLE.replace("blocks: 6", "blocks: 0"))
    assert status == 422
    assert "blocks: 0" in text
    assert "must be at least 1" in text


def test_a_form_elsewhere_queues_nothing(client: TestClient) -> None:
    status, text = submitted(client, EXAMPLE, Origin="https://evil.example")
    assert status == 403
    assert "not sent by a page of this service" in text


def test_an_experiment_can_be_run_again(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/submit?like={lab['slower']}")
    assert "async_scheduling" in text
    assert "What it will do" in text
    assert re.search(r'name="ticket" value="[0-9a-f]{16}"', text)


def test_an_estimate_names_what_it_rests_on(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/submit?like={lab['queued 0']}")
    assert re.search(r'takes about</dt><dd>[^<]+ \(as <a href="/experiments/[0-9a-f]{16}">', text)
