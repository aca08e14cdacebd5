"""Pages for whoever has a token."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.testclient import TestClient

from app.http.admission import SESSION_COOKIE
from app.main import create_app
from app.pages.submission_form import EXAMPLE
from app.service import access
from app.settings import Anonymous, Settings
from app.store import experiments, queue, tokens
from app.store.actors import Actor
from app.store.database import Database
from app.store.tokens import Scope
from tests.pages.test_experiment_page import HTMX
from tests.support.builders import a_simulated_spec
from tests.support.store import history_of

HERE = "http://127.0.0.1:8321"
OWN = {"Origin": HERE}
ROOT = Actor("root", "gpu-7")


@pytest.fixture
def closed(migrated_sqlite: Path, tmp_path: Path) -> Settings:
    """A service of its own that asks for tokens."""
    shutil.copyfile(migrated_sqlite, tmp_path / "rollout-lab.sqlite")
    return Settings(data_dir=tmp_path, allowed_hosts="", anonymous=Anonymous.AUTO)


@pytest.fixture
def its_db(closed: Settings) -> Iterator[Database]:
    """Its database."""
    db = Database(closed.url)
    yield db
    db.dispose()


@pytest.fixture
def secret(its_db: Database) -> str:
    """A token that may submit."""
    return tokens.create(its_db, "anna", Scope.SUBMIT, None, ROOT)


@pytest.fixture
def browser_of(closed: Settings, secret: str) -> Iterator[TestClient]:
    """A browser that has not logged in yet."""
    del secret
    with TestClient(create_app(closed), base_url=HERE, follow_redirects=False) as client:
        yield client


def log_in(client: TestClient, secret: str, then: str = "/experiments") -> tuple[int, str, str]:
    response = client.post("/login", data={"token": secret, "then": then}, headers=OWN)
    return response.status_code, response.headers.get("location", ""), response.headers.get("set-cookie", "")


def test_a_page_leads_to_the_form_and_the_form_back(browser_of: TestClient, secret: str) -> None:
    sent = browser_of.get("/experiments?label=a:b")
    assert sent.status_code == 303
    where = urlsplit(sent.headers["location"])
    assert where.path == "/login"
    (then,) = parse_qs(where.query)["then"]
    assert f'value="{then}"' in browser_of.get(sent.headers["location"]).text
    status, location, cookie = log_in(browser_of, secret, then)
    assert (status, location) == (303, "/experiments?label=a:b")
    assert {"HttpOnly", "Path=/", "SameSite=strict", "Max-Age=43200"} <= set(cookie.split("; "))
    assert secret not in cookie
    page = browser_of.get(location)
    assert page.status_code == 200
    assert "Log out" in page.text
    assert "<bdi>anna</bdi>" in page.text


def test_behind_tls_the_cookie_stays_there(closed: Settings, secret: str) -> None:
    with TestClient(create_app(closed), base_url="https://127.0.0.1", follow_redirects=False) as client:
        response = client.post("/login", data={"token": secret}, headers={"Origin": "https://127.0.0.1"})
    assert "Secure" in response.headers["set-cookie"].split("; ")


@pytest.mark.parametrize(
    "then", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", ""]
)
def test_nobody_is_sent_elsewhere(browser_of: TestClient, secret: str, then: str) -> None:
    assert log_in(browser_of, secret, then)[1] == "/experiments"


@pytest.mark.parametrize("wrong", ["", "rlt_wrong", "<script>"])
def test_a_wrong_token_gets_the_form_again(browser_of: TestClient, wrong: str) -> None:
    response = browser_of.post("/login", data={"token": wrong}, headers=OWN)
    assert (response.status_code, "there is no such token" in response.text) == (401, True)
    assert "set-cookie" not in response.headers
    assert browser_of.get("/experiments").status_code == 303


def test_a_form_elsewhere_logs_nobody_in(browser_of: TestClient, secret: str) -> None:
    response = browser_of.post("/login", data={"token": secret}, headers={"Sec-Fetch-Site": "cross-site"})
    assert (response.status_code, "set-cookie" in response.headers) == (403, False)


def test_a_session_does_what_its_token_may(browser_of: TestClient, secret: str, its_db: Database) -> None:
    log_in(browser_of, secret)
    where = browser_of.post("/submit", data={"spec": EXAMPLE, "ticket": "x"}, headers=OWN).headers["location"]
    page = browser_of.get(where).text
    assert "by <bdi>anna</bdi>" in page
    assert "<bdi>anna</bdi> from testclient" in page
    assert "Authorization: Bearer $ROLLOUT_LAB_TOKEN" in page.replace("&#34;", '"')
    assert "by <bdi>anna</bdi>" in browser_of.get("/experiments").text
    for polled in (
        f"{where}/live",
        f"{where}/findings",
        "/experiments/rows",
        "/workers",
        f"/v1{where}",
        f"/v1{where}/events",
    ):
        assert browser_of.get(polled, headers=HTMX).status_code in {200, 286}, polled
    others = queue.enqueue(its_db, a_simulated_spec(), by=ROOT).experiment_id
    refused = browser_of.post(f"/experiments/{others}/cancel", headers=OWN)
    assert (refused.status_code, "takes a token with the scope admin" in refused.text) == (403, True)
    assert browser_of.post(f"{where}/cancel", headers=OWN).status_code == 303


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://127.0.0.1:9"}],
)
def test_a_session_changes_nothing_for_another_page(
    browser_of: TestClient, secret: str, its_db: Database, headers: dict[str, str]
) -> None:
    log_in(browser_of, secret)
    queued = queue.enqueue(its_db, a_simulated_spec(), by=Actor("anna")).experiment_id
    for path in (f"/experiments/{queued}/cancel", f"/v1/experiments/{queued}/cancel", f"/experiments/{queued}/retry"):
        assert browser_of.post(path, headers=headers).status_code == 403, path
    assert browser_of.post("/submit", data={"spec": EXAMPLE}, headers=headers).status_code == 403
    assert experiments.get_item(its_db, queued).status == "queued"


def test_logging_out_ends_the_session_for_good(browser_of: TestClient, secret: str, its_db: Database) -> None:
    log_in(browser_of, secret)
    kept = browser_of.cookies[SESSION_COOKIE]
    left = browser_of.post("/logout", headers=OWN)
    assert (left.status_code, left.headers["location"]) == (303, "/login")
    assert SESSION_COOKIE not in browser_of.cookies
    browser_of.cookies.set(SESSION_COOKIE, kept, domain="127.0.0.1")
    assert browser_of.get("/experiments").status_code == 303
    assert [action for action, _by, _from in history_of(its_db, "anna")] == ["created", "logged in", "logged out"]


def test_a_session_ends_with_its_token(
    browser_of: TestClient, secret: str, its_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "REMEMBERED_S", 0.0)
    log_in(browser_of, secret)
    assert browser_of.get("/experiments").status_code == 200
    tokens.revoke(its_db, "anna", ROOT)
    assert browser_of.get("/experiments").status_code == 303


def test_a_part_that_is_polled_sends_the_whole_page_to_the_form(browser_of: TestClient) -> None:
    response = browser_of.get("/experiments/rows", headers=HTMX | {"HX-Current-URL": f"{HERE}/experiments?name=x"})
    assert response.status_code == 401
    assert response.headers["HX-Redirect"] == "/login?then=%2Fexperiments%3Fname%3Dx"


def test_a_link_from_elsewhere_is_asked_for_again_by_a_page_of_ours(browser_of: TestClient, secret: str) -> None:
    """The browser sends a strict cookie to nobody else's links."""
    bounced = browser_of.get("/experiments", headers={"Sec-Fetch-Site": "cross-site"})
    assert (bounced.status_code, 'http-equiv="refresh"' in bounced.text) == (200, True)
    log_in(browser_of, secret)
    assert browser_of.get("/experiments", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200


def test_a_token_opens_pages_too_and_a_wrong_one_is_told_so(browser_of: TestClient, secret: str) -> None:
    assert browser_of.get("/experiments", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
    assert browser_of.get("/experiments", headers={"Authorization": "Bearer rlt_wrong"}).status_code == 401
