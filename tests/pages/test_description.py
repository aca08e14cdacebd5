"""/docs: the API's description, readable without a network."""

import re

from starlette.testclient import TestClient

from tests.pages.test_experiment_page import page


def test_every_call_and_schema_is_on_the_page_and_every_link_leads_somewhere(client: TestClient) -> None:
    text = page(client, "/docs")
    document = client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in text
    for name in document["components"]["schemas"]:
        assert f'id="schema-{name}"' in text
    anchors = set(re.findall(r'\sid="([^"]+)"', text))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= anchors


def test_the_page_needs_nothing_from_elsewhere(client: TestClient) -> None:
    response = client.get("/docs")
    assert "unsafe" not in response.headers["Content-Security-Policy"]
    assert not re.search(r'(?:src|href)="(?:https?:)?//', response.text)
