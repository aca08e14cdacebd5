"""The list of experiments."""

import re
from html import unescape

import pytest
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from app.store import queue
from app.store.database import Database
from tests.pages.test_experiment_page import HTMX, page
from tests.support.stories import STORIES, Lab, simulated_spec


def names(text: str) -> list[str]:
    return [unescape(name) for name in re.findall(r'<th scope="row">\s*<a [^>]*><bdi>([^<]*)</bdi>', text)]


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
        ("created_after=2020-01-01&created_before=2020-02-01T00:00:00Z", set()),
        ("created_after=2020-01-01&status=failed", {"8,192 tokens on a small card"}),
    ],
)
def test_filters_are_in_the_address(client: TestClient, query: str, expected: set[str]) -> None:
    assert set(names(page(client, f"/experiments?{query}"))) == expected
    fragment = client.get(f"/experiments?{query}", headers=HTMX)
    assert set(names(fragment.text)) == expected
    assert "<html" not in fragment.text


def test_sorts_are_in_the_address_and_in_what_follows(client: TestClient, crowd: Settings) -> None:
    by_name = names(page(client, "/experiments?sort=name&order=desc"))
    assert by_name == sorted(by_name, reverse=True)
    assert names(page(client, "/experiments?order=asc"))[0] == names(page(client, "/experiments"))[-1]
    assert set(names(page(client, "/experiments?sort=finished_at"))) < set(by_name)
    with TestClient(create_app(crowd)) as other:
        text = page(other, "/experiments?sort=name")
        more = re.search(r'hx-get="([^"]*cursor=[^"]*)"', text)
        assert more is not None
        found = names(text) + names(other.get(more[1].replace("&amp;", "&"), headers=HTMX).text)
        assert found == sorted(f"number {number}" for number in range(1000))[: len(found)]
        poll = re.search(r'id="first" hx-get="([^"]*)"', text)
        assert poll is not None
        assert other.get(poll[1].replace("&amp;", "&"), headers=HTMX).status_code == 204


def test_a_bad_date_is_explained(client: TestClient) -> None:
    assert "neither a date, like 2026-01-31" in page(client, "/experiments?created_after=soon", 422)
    part = client.get("/experiments?created_after=soon", headers=HTMX | {"HX-Target": "list"})
    assert part.status_code == 422
    assert '<section id="list"' in part.text  # the list comes back there once the date is right


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
