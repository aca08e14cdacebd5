"""The list of experiments."""

import re

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.store import queue
from app.store.database import Database
from tests.pages.test_experiment_page import HTMX, page
from tests.support.stories import STORIES, Lab, simulated_spec


def names(text: str) -> list[str]:
    return re.findall(r'<th scope="row">\s*<a [^>]*><bdi>([^<]*)</bdi>', text)


def test_the_newest_come_first_with_verdict_and_place(client: TestClient, lab: Lab) -> None:
    del lab
    text = page(client, "/")
    assert "one replica or two" in names(text)
    assert names(text).index("async without async scheduling") < names(text).index("40 arms")
    assert re.search(r"place \d", text)
    assert "of 12 trials" in text
    for verdict in ("slower", "faster", "same", "inconclusive", "confounded"):
        assert f"chip v-{verdict}" in text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("verdict=confounded", {"defaults of vLLM on both sides"}),
        ("name=16+SAMPLES", {"16 samples at once or one by one"}),
        ("label=issue:4264", {"async without async scheduling"}),
        ("status=failed", {"8,192 tokens on a small card"}),
        ("model=tiny-qwen2&status=running&name=running", {"running now"}),
        ("label=suite:gpu+issue:4264&verdict=slower", {"async without async scheduling"}),
    ],
)
def test_filters_are_in_the_address(client: TestClient, query: str, expected: set[str]) -> None:
    assert set(names(page(client, f"/experiments?{query}"))) == expected
    fragment = client.get(f"/experiments?{query}", headers=HTMX)
    assert set(names(fragment.text)) == expected
    assert "<html" not in fragment.text


def test_nothing_found_says_so(client: TestClient) -> None:
    text = page(client, "/experiments?name=nothing+like+it")
    assert "No experiment fits." in text
    assert "Show all" in text


def test_a_label_without_a_colon_is_explained(client: TestClient) -> None:
    assert "is not key:value" in page(client, "/experiments?label=suite", 422)
    assert "Invalid input" in page(client, "/experiments?status=gone", 422)


def test_an_unchanged_list_is_not_sent_twice(client: TestClient, lab: Lab) -> None:
    text = page(client, "/experiments?status=failed")
    found = re.search(r'id="first" hx-get="([^"]*)"', text)
    assert found is not None
    poll = found[1].replace("&amp;", "&")
    assert client.get(poll, headers=HTMX).status_code == 204
    queue.enqueue(lab.db, simulated_spec(name="just now"))
    assert client.get(poll, headers=HTMX).status_code == 204  # it is not a failed one
    all_of_them = re.search(r'id="first" hx-get="([^"]*)"', page(client, "/experiments"))
    assert all_of_them is not None
    queue.enqueue(lab.db, simulated_spec(name="just now too"))
    fresh = client.get(all_of_them[1].replace("&amp;", "&"), headers=HTMX)
    assert fresh.status_code == 200
    assert names(fresh.text)[0] == "just now too"
    assert len(names(fresh.text)) >= len(STORIES)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A service with 1,000 experiments in its queue."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("crowd"))
    db = Database(settings.url)
    db.upgrade()
    for number in range(1000):
        queue.enqueue(db, simulated_spec(name=f"number {number}"))
    db.dispose()
    return settings


def test_a_thousand_come_a_page_at_a_time_each_once(crowd: Settings) -> None:
    with TestClient(create_app(crowd)) as client:
        found = names(page(client, "/experiments"))
        text = page(client, "/experiments")
        while (more := re.search(r'hx-get="([^"]*cursor=[^"]*)"', text)) is not None:
            response = client.get(more[1].replace("&amp;", "&"), headers=HTMX)
            assert len(response.content) < 120_000
            text = response.text
            found += names(text)
    assert sorted(found, key=lambda name: int(name.split()[1])) == [f"number {number}" for number in range(1000)]
