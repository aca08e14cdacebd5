"""Compare, workers, profiles, the report."""

import re

from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.store import workers
from tests.pages.test_experiment_page import HTMX, page
from tests.support.stories import HOSTILE, Lab


def test_arms_of_any_experiments_stand_side_by_side(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/compare?arm={lab['tie']}:async&arm={lab['slower']}:async&arm={lab['slower']}:sync")
    head = text[text.index('class="side-by-side"') :]
    assert re.findall(r'class="num"><bdi>([^<]*)</bdi>', head)[:3] == ["async", "async", "sync"]
    assert "Output throughput" in text
    assert "trials are not paired" in text


def test_different_fingerprints_are_loud_and_explained(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/compare?experiment={lab['tie']}&experiment={lab['simulated']}")
    assert "These were not measured alike" in text
    for what in ("model", "workload.samples_per_prompt", "hardware.gpu"):
        assert f"<code>{what}</code>" in text


def test_settings_alone_are_another_matter_than_hosts(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/compare?experiment={lab['tie']}&experiment={lab['slower']}")
    assert "The fingerprints differ" in text
    assert "ask for different settings" in text


def test_arms_of_one_experiment_are_measured_alike(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/compare?experiment={lab['tie']}")
    assert "These were not measured alike" not in text
    assert "trials are not paired" not in text


def test_what_cannot_be_compared_is_named(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/compare?experiment={lab['tie']}&experiment=nobody&arm={lab['tie']}:nobody&arm=::")
    assert "There is no experiment nobody." in text
    assert 'class="side-by-side"' in text


def test_forty_arms_are_too_many_columns(client: TestClient, lab: Lab) -> None:
    assert "28 more arms left out" in page(client, f"/compare?experiment={lab['forty']}")


def test_workers_say_what_they_run_and_have(client: TestClient, lab: Lab) -> None:
    del lab
    text = page(client, "/workers")
    assert "gpu-7" in text
    assert "running now" in text
    assert "2.11.0+cu130" in text
    assert "<html" not in client.get("/workers", headers=HTMX).text


def test_workers_that_report_nonsense_have_a_page(settings: Settings, lab: Lab) -> None:
    workers.announce(lab.db, "odd", host=HOSTILE, pid=1, info={"nodes": ["x", {"gpus": "many"}], "versions": 7})
    with TestClient(create_app(settings)) as client:
        text = page(client, "/workers")
    workers.forget(lab.db, "odd")
    assert "<script>" not in text


def test_profiles_are_explained(client: TestClient) -> None:
    text = page(client, "/profiles")
    for said in ("vllm-sync@1", "vllm-async@1", "driver.output_kind", "tiny-qwen2"):
        assert said in text


def test_a_report_is_one_file_that_needs_nothing(client: TestClient, lab: Lab) -> None:
    response = client.get(f"/experiments/{lab['slower']}/report.html")
    text = response.text
    assert response.headers["Content-Disposition"] == f'attachment; filename="rollout-lab-{lab["slower"]}.html"'
    assert "<script" not in text
    assert not re.search(r"<(?:link|img|iframe|object)\b", text)
    assert not re.search(r'(?:src|href)="(?!#)', text.split("</head>")[1])
    assert "default-src &#39;none&#39;" in text
    for figure in ("verdict", "metrics", "pairs", "noise", "latency", "shape", "engine"):
        assert f'id="figure-{figure}"' in text
    assert "curl --json" in text
    assert len(response.content) < 600_000
