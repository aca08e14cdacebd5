"""What browsers load comes from this package, and from nowhere else."""

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.pages.assets import FILES, make_asset_path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "app" / "pages"
VENDOR = (PAGES / "static" / "vendor", Path(__file__).parent / "vendor")
TEMPLATES = sorted((PAGES / "templates").glob("*.html"))


def entries() -> list[tuple[Path, dict[str, Any]]]:
    return [
        (directory, entry)
        for directory in VENDOR
        for entry in tomllib.loads((directory / "VENDORED.toml").read_text())["file"]
    ]


@pytest.mark.parametrize(("directory", "entry"), entries(), ids=lambda value: getattr(value, "name", None))
def test_a_vendored_file_is_what_its_entry_says(directory: Path, entry: dict[str, Any]) -> None:
    body = (directory / entry["file"]).read_bytes()
    assert hashlib.sha256(body).hexdigest() == entry["sha256"]
    assert {"package", "version", "path", "licence"} <= set(entry)
    assert (directory / entry["licence_file"]).read_text().strip()


@pytest.mark.parametrize("directory", VENDOR, ids=lambda directory: directory.parent.name)
def test_no_vendored_file_is_without_an_entry(directory: Path) -> None:
    told = {entry["file"] for where, entry in entries() if where == directory}
    assert {path.name for path in directory.iterdir() if path.suffix in {".js", ".css"}} == told


def test_every_static_file_can_be_asked_for() -> None:
    static = PAGES / "static"
    found = {str(path.relative_to(static)) for path in static.rglob("*") if path.suffix in {".js", ".css", ".svg"}}
    assert found == set(FILES)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_needs_what_the_policy_forbids(template: Path) -> None:
    text = template.read_text()
    assert not re.search(r"\son[a-z]+=", text), "an inline handler"
    assert not re.search(r"\sstyle=", text), "an inline style"
    assert not re.search(r"<script(?![^>]*\bsrc=)", text), "an inline script"
    assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", text), "another host"
    assert not re.search(r"(?:src|href|action|hx-get|hx-post)=\"/", text), "a path that forgets the prefix"


@pytest.mark.parametrize("name", ["lab.css", "lab.js"])
def test_our_own_files_name_no_other_host(name: str) -> None:
    assert not re.search(r"https?://|@import|url\(", (PAGES / "static" / name).read_text())


def test_a_file_is_kept_while_its_address_is_in_use(client: TestClient) -> None:
    response = client.get(make_asset_path("lab.css"))
    assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert client.get("/static/lab.css?v=old").headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize("name", ["nothing.js", "../routes.py", "vendor/VENDORED.toml", "%2e%2e/routes.py"])
def test_nothing_else_is_served(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404


def test_every_page_is_under_a_strict_policy(client: TestClient) -> None:
    for path in ("/", "/experiments/nobody", "/submit", "/workers"):
        policy = client.get(path).headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
