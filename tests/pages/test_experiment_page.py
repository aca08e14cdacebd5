"""The page of one experiment, whatever became of it."""

import csv
import io
import re

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

from app.main import create_app
from app.pages.figures import FIGURES
from app.settings import Settings
from app.spec.lifecycle import Status
from app.store import experiments, queue
from app.store.ids import ExperimentId
from app.store.tables import experiments as table
from tests.support.stories import HOSTILE, RIGHT_TO_LEFT, STORIES, Lab, simulated_spec, submitted

HTMX = {"HX-Request": "true"}
STOP = 286


def page(client: TestClient, path: str, status: int = 200) -> str:
    response = client.get(path)
    assert response.status_code == status, response.text[:400]
    assert response.headers["content-type"].startswith("text/html")
    return response.text


@pytest.mark.parametrize("name", [*STORIES, "running", "queued 0"])
def test_every_experiment_has_a_page_a_report_and_data(client: TestClient, lab: Lab, name: str) -> None:
    here = f"/experiments/{lab[name]}"
    assert "<h1>" in page(client, here)
    assert "<h1>" in page(client, f"{here}/report.html")
    for part in ("live", "findings", "parts/latency", "parts/shape", "parts/engine"):
        assert "<h1" in page(client, f"{here}/{part}")
    for figure in FIGURES:
        found = client.get(f"{here}/data/{figure}.json").json()
        rows = list(csv.reader(io.StringIO(client.get(f"{here}/data/{figure}.csv").text)))
        assert rows[0] == found["columns"]
        assert len(rows) - 1 == len(found["items"])
    assert client.get(f"{here}/sparkline.svg").headers["content-type"] == "image/svg+xml"


def test_the_verdict_comes_first(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/experiments/{lab['slower']}")
    chip, sentence, plot = (text.index(part) for part in ("chip v-slower", "async is ", 'id="figure-verdict"'))
    assert chip < sentence < plot < text.index('id="metrics"')
    assert "slower than sync on output throughput" in text
    assert "does not contain zero" in text


def test_a_failed_experiment_says_why_and_shows_what_it_had(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/experiments/{lab['failed']}")
    assert "Failed: engine died in <bdi>async</bdi>" in text
    assert "CUDA out of memory" in text
    assert "Last lines of the engine" in text
    assert "Failed after 2 of 8 blocks" in text


def test_one_arm_has_nothing_to_be_compared_with(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/experiments/{lab['single']}")
    assert "the only arm" in text
    assert "There is one arm, and nothing to compare it with." in text
    assert "chip v-" not in text.split("</header>")[-1]


def test_forty_arms_are_counted_and_stand_in_rows(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/experiments/{lab['forty']}")
    assert "39 candidates" in text
    assert "The sentence for every candidate" in text
    latency = page(client, f"/experiments/{lab['forty']}/parts/latency")
    assert "32 more arms" in latency
    assert len(set(re.findall(r"arm-\d", latency))) == 8


def test_any_candidate_and_metric_can_be_chosen_by_address(client: TestClient, lab: Lab) -> None:
    here = f"/experiments/{lab['forty']}"
    text = page(client, f"{here}?candidate=max_num_seqs+96&metric=duration_s")
    assert "max_num_seqs 96 against max_num_seqs 64, metric by metric" in text
    assert '<option value="duration_s" selected>' in text
    data = client.get(f"{here}/data/pairs.json", params={"candidate": "max_num_seqs 96", "metric": "duration_s"})
    assert {row["candidate"] for row in data.json()["items"]} == {"max_num_seqs 96"}


@pytest.mark.parametrize("query", ["candidate=nobody", "metric=nothing", "latency=x", "block=777", "arm=nobody"])
def test_a_choice_that_does_not_fit_is_as_if_it_had_not_been_made(client: TestClient, lab: Lab, query: str) -> None:
    for part in ("", "/parts/latency", "/parts/shape", "/parts/engine"):
        page(client, f"/experiments/{lab['tie']}{part}?{query}")


def test_a_choice_of_the_wrong_kind_is_an_error_page(client: TestClient, lab: Lab) -> None:
    assert "<h1>Invalid input</h1>" in page(client, f"/experiments/{lab['tie']}?block=many", 422)


def test_names_are_never_markup(client: TestClient, lab: Lab) -> None:
    here = f"/experiments/{lab['hostile']}"
    parts = (
        "",
        "/report.html",
        "/live",
        "/findings",
        "/parts/latency",
        "/parts/shape",
        "/parts/engine",
        "?settings=all",
    )
    for path in ("/", "/compare", f"/compare?experiment={lab['hostile']}", *(here + part for part in parts)):
        text = page(client, path)
        assert "<script>" not in text
        assert "alert(" in text


def test_names_from_the_right_keep_their_direction_to_themselves(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/experiments/{lab['hostile']}")
    assert f"\u2068{RIGHT_TO_LEFT}\u2069 is " in text
    assert f"<bdi>{RIGHT_TO_LEFT}</bdi>" in text


def test_a_name_that_is_a_formula_stays_text_in_a_table(client: TestClient, lab: Lab) -> None:
    claimed = submitted(lab.db, simulated_spec(arms=[{"name": "=1+1", "profile": "simulated"}], name="=2+2"))
    text = client.get(f"/experiments/{claimed.lease.experiment_id}/data/progress.csv").text
    assert text.splitlines()[1].startswith("'=1+1,")


def test_results_of_an_older_version_say_what_they_lack(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/experiments/{lab['older']}")
    assert "Written by another version of Rollout Lab." in text
    assert "arms.itl_ms" in text
    assert "a method that is not named" in text
    assert "chip v-slower" in text


def test_results_of_a_newer_version_say_what_is_not_shown(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/experiments/{lab['newer']}")
    assert "waterfall" in text
    assert "parity.equal" in text
    assert "method paired-log-t 3" in text


def rewritten(lab: Lab, **changes: object) -> str:
    """A queued experiment whose spec another version wrote."""
    found = queue.enqueue(lab.db, simulated_spec(name="another spec")).experiment_id
    spec = experiments.get(lab.db, found).submitted | changes
    with lab.db.write() as connection:
        connection.execute(update(table).where(table.c.id == found).values(spec=spec))
    return found


def test_a_spec_of_another_version_has_a_page_that_says_so(client: TestClient, lab: Lab) -> None:
    found = rewritten(lab, moon="full", plan={"blocks": "many"})
    text = page(client, f"/experiments/{found}", 409)
    assert "<h1>Written by another version</h1>" in text
    assert "cannot read 2 of its fields" in text
    assert page(client, f"/compare?experiment={found}&experiment={lab['tie']}")
    queue.request_cancel(lab.db, ExperimentId(found))


def test_a_profile_nobody_knows_any_more_leaves_a_page(client: TestClient, lab: Lab) -> None:
    found = rewritten(lab, arms=[{"name": "a", "profile": "gone"}, {"name": "b", "profile": "gone"}])
    text = page(client, f"/experiments/{found}")
    assert "does not know a profile or a model preset" in text
    assert "nothing can be computed" in text
    page(client, f"/experiments/{found}/report.html")
    queue.request_cancel(lab.db, ExperimentId(found))


def test_an_undeclared_difference_is_loud(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/experiments/{lab['confounded']}")
    assert "chip v-confounded" in text
    assert "1 difference that nobody declared" in text
    assert "engine.scheduler_config.max_num_seqs" in text


def test_an_effect_stands_beside_the_noise_of_equal_arms(client: TestClient, lab: Lab) -> None:
    known = page(client, f"/experiments/{lab['slower']}")
    assert "Equal arms have differed by up to" in known
    assert 'id="figure-noise"' in known
    assert "No A/A experiment" in page(client, f"/experiments/{lab['faster']}")


def test_what_a_reader_asks_first_stands_under_the_sentence(client: TestClient, lab: Lab) -> None:
    def checks(name: str) -> str:
        text = page(client, f"/experiments/{lab[name]}")
        assert text.index('class="sentence') < text.index('class="checks"') < text.index('id="figure-verdict"')
        return " ".join(re.sub(r"<[^>]*>", "", text.split('class="checks"')[1].split("</ul>")[0]).split())

    assert "✓ Configured alike: but for what the spec says ✓ Same work: in 8 blocks" in checks("slower")
    assert "✓ Trials that count: all 16" in checks("slower")
    assert "! Left open: this holds for these engine processes" in checks("slower")
    assert "! Trials that count: 10 of 12, without block 2" in checks("dropped")
    assert "✗ Configured alike: no, " in checks("confounded")


def test_a_dropped_trial_is_shown_with_its_reason(client: TestClient, lab: Lab) -> None:
    found = page(client, f"/experiments/{lab['dropped']}").split('id="conditions"')[1].split("</table>")[0]
    rows = [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in found.split("<tr>")[2:]]
    assert sorted(rows) == ["2 async no async failed: the engine died", "2 sync no async failed: the engine died"]
    assert "Every measured trial counts" in page(client, f"/experiments/{lab['slower']}")


def test_a_dropped_block_is_explained(client: TestClient, lab: Lab) -> None:
    assert "Block 2 does not count: async failed: the engine died" in page(client, f"/experiments/{lab['dropped']}")


def test_settings_are_those_that_differ_or_all(client: TestClient, lab: Lab) -> None:
    here = f"/experiments/{lab['slower']}"
    assert "engine.gpu_memory_utilization" not in page(client, here)
    text = page(client, f"{here}?settings=all")
    assert "engine.gpu_memory_utilization" in text
    assert "Only what differs" in text


def test_the_command_makes_the_same_experiment(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/experiments/{lab['tie']}")
    assert "curl --json @- &#39;http://testserver/v1/experiments&#39; &lt;&lt;&#39;SPEC&#39;" in text


@pytest.mark.parametrize(
    "path",
    ["/experiments/nobody", "/experiments/nobody/report.html", "/experiments/" + "x" * 300, "/submit?like=nobody"],
)
def test_an_unknown_experiment_is_a_page_that_says_so(client: TestClient, path: str) -> None:
    text = page(client, path, 404)
    assert "<h1>Not found</h1>" in text
    assert "there is no experiment" in text
    assert 'href="/experiments"' in text


def test_an_unknown_chart_is_not_found(client: TestClient, lab: Lab) -> None:
    assert "no chart called nothing" in page(client, f"/experiments/{lab['tie']}/data/nothing.json", 404)


def test_a_missing_part_is_a_short_notice_for_htmx(client: TestClient) -> None:
    response = client.get("/experiments/nobody/live", headers=HTMX)
    assert response.status_code == 404
    assert "<html" not in response.text


# --- alive ---------------------------------------------------------------------------------------------------------

PARTS = ("live", "findings", "parts/latency", "parts/shape", "parts/engine")


@pytest.mark.parametrize("part", PARTS)
def test_a_finished_part_tells_htmx_to_stop_asking(client: TestClient, lab: Lab, part: str) -> None:
    response = client.get(f"/experiments/{lab['tie']}/{part}", headers=HTMX)
    assert response.status_code == STOP
    assert "<html" not in response.text
    assert 'hx-trigger="every' not in response.text


@pytest.mark.parametrize("part", PARTS)
def test_a_running_part_asks_again_and_is_not_sent_twice(client: TestClient, lab: Lab, part: str) -> None:
    here = f"/experiments/{lab['running']}/{part}"
    response = client.get(here, headers=HTMX)
    assert response.status_code == 200
    found = re.search(r'hx-get="([^"]*seen=[^"]*)" hx-trigger="every', response.text)
    assert found is not None
    again = client.get(found[1].replace("&amp;", "&"), headers=HTMX)
    assert (again.status_code, again.text) == (204, "")
    assert client.get(found[1].replace("&amp;", "&")).status_code == 200  # a reader who opens it sees a page


def test_a_running_experiment_shows_how_far_it_is_and_no_verdict(client: TestClient, lab: Lab) -> None:
    text = page(client, f"/experiments/{lab['running']}")
    assert "5 of 12 trials done, about 32 s left" in text
    assert "cell running" in text
    assert "hero edge-" not in text
    assert "no verdict, the experiment is not done" in text


def test_a_queued_experiment_says_its_place(client: TestClient, lab: Lab) -> None:
    assert "in the queue" in page(client, f"/experiments/{lab['queued 1']}")


def test_history_restored_by_htmx_is_a_whole_page(client: TestClient, lab: Lab) -> None:
    response = client.get(f"/experiments/{lab['tie']}", headers=HTMX | {"HX-History-Restore-Request": "true"})
    assert "<html" in response.text


def test_cancelling_is_for_pages_of_this_service_alone(client: TestClient, lab: Lab) -> None:
    claimed = submitted(lab.db, simulated_spec(name="to be cancelled"))
    path = f"/experiments/{claimed.lease.experiment_id}/cancel"
    elsewhere = client.post(path, headers={"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"})
    assert elsewhere.status_code == 403
    assert "was not sent by a page of this service" in elsewhere.text
    assert not experiments.get_item(lab.db, claimed.lease.experiment_id).cancel_requested
    form = client.post(path, headers={"Origin": "http://testserver"}, follow_redirects=False)
    assert (form.status_code, form.headers["location"]) == (303, path.removesuffix("/cancel"))
    assert experiments.get_item(lab.db, claimed.lease.experiment_id).cancel_requested
    assert "asked to stop" in client.post(path, headers=HTMX).text


def test_a_failed_experiment_is_retried_from_its_page(client: TestClient, lab: Lab) -> None:
    claimed = submitted(lab.db, simulated_spec(name="to be retried"))
    path = f"/experiments/{claimed.lease.experiment_id}"
    assert ">Retry</button>" not in page(client, path)
    queue.finish(lab.db, claimed.lease, Status.CANCELLED, reason="cancelled on request")
    assert ">Retry</button>" in page(client, path)
    elsewhere = client.post(f"{path}/retry", headers={"Sec-Fetch-Site": "cross-site"})
    assert elsewhere.status_code == 403
    form = client.post(f"{path}/retry", headers={"Origin": "http://testserver"}, follow_redirects=False)
    (retry,) = experiments.get(lab.db, claimed.lease.experiment_id).retries
    assert (form.status_code, form.headers["location"]) == (303, f"/experiments/{retry}")
    queue.request_cancel(lab.db, retry)


# --- behind a proxy ------------------------------------------------------------------------------------------------


def test_every_address_on_a_page_has_the_prefix(settings: Settings, lab: Lab) -> None:
    app = create_app(settings.model_copy(update={"root_path": "/lab"}))
    with TestClient(app, root_path="/lab") as client:
        for path in ("/", "/submit", "/workers", "/profiles", "/compare", f"/experiments/{lab['running']}"):
            text = page(client, path)
            addresses = re.findall(r'(?:href|src|action|hx-get|hx-post|data-source)="(/[^"]*)"', text)
            assert addresses
            assert all(one.startswith("/lab/") for one in addresses), addresses
        assert "http://testserver/lab/v1/experiments" in page(client, f"/experiments/{lab['running']}")


def test_no_page_is_part_of_the_api(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert "/experiments/{experiment_id}" not in paths
    assert HOSTILE not in str(paths)
