"""The pages in a real browser, served by the real service."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from app.spec.lifecycle import Current, Progress, Status, Step
from app.store import queue
from benchmarks.support.service import Service
from tests.support.browser import DESK, PHONE, Watched, watched
from tests.support.stories import LEASE_S, Lab, finish, simulated_spec, submitted
from tests.support.work import run_steps

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
SERIOUS = """
async () => {
  const found = await axe.run(document, {resultTypes: ["violations"]});
  return found.violations
    .filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => `${one.id}: ${one.help} (${one.nodes[0].html.slice(0, 200)})`);
}
"""
PAGES = {
    "list": "/",
    "nothing": "/experiments?name=nothing",
    "slower": "/experiments/{slower}",
    "failed": "/experiments/{failed}",
    "hostile": "/experiments/{hostile}",
    "forty": "/experiments/{forty}",
    "newer": "/experiments/{newer}",
    "running": "/experiments/{running}",
    "submit": "/submit",
    "compare": "/compare?experiment={tie}&experiment={simulated}",
    "workers": "/workers",
    "profiles": "/profiles",
}


def address(service: Service, lab: Lab, path: str) -> str:
    return service.url + path.format(**{name.replace(" ", "_"): one for name, one in lab.ids.items()})


def serious_problems(opened: Watched) -> list[str]:
    """What axe finds that keeps people out. It is evaluated, not loaded: the policy of the page stays in force."""
    opened.page.evaluate(AXE)
    found: list[str] = opened.page.evaluate(SERIOUS)
    return found


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_in_order_on_a_phone_and_open_to_everybody(
    browser: Browser, service: Service, lab: Lab, name: str
) -> None:
    with watched(browser, PHONE, "dark") as opened:
        opened.page.goto(address(service, lab, PAGES[name]))
        opened.scroll_through()
        opened.assert_in_order()
        assert serious_problems(opened) == []


@pytest.mark.parametrize("name", ["list", "slower", "hostile", "running", "submit", "compare"])
def test_every_kind_of_page_is_in_order_on_a_desk_and_open_to_everybody(
    browser: Browser, service: Service, lab: Lab, name: str
) -> None:
    with watched(browser, DESK, "light") as opened:
        opened.page.goto(address(service, lab, PAGES[name]))
        opened.scroll_through()
        opened.assert_in_order()
        assert serious_problems(opened) == []


@pytest.mark.parametrize(("width", "scheme"), [(PHONE, "light"), (DESK, "dark")])
def test_colours_can_be_told_apart_in_the_other_scheme_too(
    browser: Browser, service: Service, lab: Lab, width: int, scheme: str
) -> None:
    with watched(browser, width, scheme) as opened:
        for name in ("list", "slower"):
            opened.page.goto(address(service, lab, PAGES[name]))
            opened.scroll_through()
            assert serious_problems(opened) == []
        opened.assert_in_order()


def test_an_unknown_experiment_is_a_page_in_order(browser: Browser, service: Service) -> None:
    with watched(browser, PHONE) as opened:
        opened.page.goto(f"{service.url}/experiments/nobody")
        expect(opened.page.locator("h1")).to_have_text("Not found")
        assert serious_problems(opened) == []
        assert opened.is_as_wide_as_it_should_be()
        assert opened.strangers == []


@pytest.mark.parametrize("width", [1440, 1024])
def test_no_table_is_clipped_on_a_desk(browser: Browser, service: Service, lab: Lab, width: int) -> None:
    with watched(browser, width) as opened:
        for name in ("list", "slower", "compare"):
            opened.page.goto(address(service, lab, PAGES[name]))
            opened.page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            clipped = opened.page.evaluate(
                "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth)"
                ".map((one) => one.ariaLabel)"
            )
            assert clipped == []
            filled = opened.page.evaluate("document.querySelector('table, .hero').getBoundingClientRect().right")
            assert filled > 0.9 * width


def test_dark_is_dark(browser: Browser, service: Service) -> None:
    grounds: dict[str, str] = {}
    for scheme in ("light", "dark"):
        with watched(browser, scheme=scheme) as opened:
            opened.page.goto(service.url)
            grounds[scheme] = opened.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert grounds == {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 22, 29)"}


def test_an_open_page_follows_the_experiment_to_its_end(browser: Browser, service: Service, lab: Lab) -> None:
    claimed = submitted(lab.db, simulated_spec(name="followed"))
    steps = run_steps(lab.db, claimed)
    for _ in range(4):
        next(steps)
    with watched(browser) as opened:
        page = opened.page
        asked: list[str] = []
        page.goto(f"{service.url}/experiments/{claimed.lease.experiment_id}")
        expect(page.locator("#live .chip").first).to_have_text("running")
        expect(page.locator(".hero .word")).to_have_count(0)
        page.locator("#history summary").click()
        current = Current(arm="sync", block=5)
        for _ in steps:
            queue.beat(
                lab.db,
                claimed.lease,
                LEASE_S,
                Progress(step=Step.MEASURING, trials_done=11, trials_total=12, current=current, eta_s=2.0),
            )
        expect(page.locator("#live")).to_contain_text("11 of 12 trials done", timeout=15_000)
        assert page.locator("#history").get_attribute("open") is not None  # what was open stays open
        finish(lab.db, claimed, Status.SUCCEEDED)
        expect(page.locator("#live .chip").first).to_have_text("succeeded", timeout=15_000)
        expect(page.locator(".hero .word .chip")).to_contain_text("slower", timeout=15_000)
        expect(page.locator("#announce")).to_contain_text("Verdict: slower")
        page.on("request", lambda request: asked.append(request.url))
        page.wait_for_timeout(4000)
        assert asked == []  # nothing is asked for any more
        opened.assert_in_order()


def test_a_list_that_is_open_takes_new_experiments_in_and_keeps_what_is_chosen(
    browser: Browser, service: Service, lab: Lab
) -> None:
    with watched(browser) as opened:
        page = opened.page
        page.goto(f"{service.url}/experiments?label=suite:demo")
        page.locator(f"input[value='{lab['simulated']}']").check()
        queue.enqueue(lab.db, simulated_spec(name="arrived later"))
        expect(page.locator("#first a").first).to_have_text("arrived later", timeout=15_000)
        expect(page.locator(f"input[value='{lab['simulated']}']")).to_be_checked()
        page.get_by_role("button", name="Compare the chosen ones").click()
        expect(page.locator("table.side-by-side")).to_be_visible()
        opened.assert_in_order()


def test_filters_change_the_address_and_back_undoes_them(browser: Browser, service: Service, lab: Lab) -> None:
    del lab
    with watched(browser) as opened:
        page = opened.page
        page.goto(f"{service.url}/experiments")
        page.get_by_label("Verdict").select_option("confounded")
        expect(page.locator("#first tr")).to_have_count(1)
        assert page.url.startswith(f"{service.url}/experiments?")
        assert "verdict=confounded" in page.url
        page.reload()
        expect(page.locator("#first tr")).to_have_count(1)
        page.go_back()
        expect(page.locator("#first tr").nth(5)).to_be_visible()
        opened.assert_in_order()


def test_a_spec_is_checked_while_it_is_typed_and_submitted(browser: Browser, service: Service, lab: Lab) -> None:
    del lab
    with watched(browser) as opened:
        page = opened.page
        page.goto(f"{service.url}/submit")
        text = page.get_by_label("Spec")
        right = text.input_value().replace("vllm-sync", "simulated").replace("vllm-async", "simulated")
        text.fill(right.replace("blocks: 6", "blocks: x"))
        expect(page.locator("#rehearsal")).to_contain_text("/plan/blocks")
        page.locator("#rehearsal button.line").click()
        assert page.evaluate(
            "getSelection().toString() || text.value.slice(text.selectionStart, text.selectionEnd)"
        ) == ("plan: {blocks: x}")
        text.fill(right)
        expect(page.locator("#rehearsal")).to_contain_text("What it will do")
        page.get_by_role("button", name="Submit").click()
        expect(page.locator("h1")).to_have_text("sync against async")
        expect(page.locator("#live .chip").first).to_have_text("queued")
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#live .chip").first).to_have_text("cancelled")
        opened.assert_in_order()


def test_the_keyboard_reaches_what_the_mouse_does(browser: Browser, service: Service, lab: Lab) -> None:
    with watched(browser) as opened:
        page = opened.page
        page.goto(address(service, lab, PAGES["slower"]))
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        page.locator("#toggle-settings").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#arms")).to_contain_text("engine.gpu_memory_utilization")
        assert page.evaluate("document.activeElement.id") == "toggle-settings"
        assert "settings=all" in page.url
        opened.assert_in_order()


def test_a_chart_can_be_zoomed_into(browser: Browser, service: Service, lab: Lab) -> None:
    with watched(browser) as opened:
        page = opened.page
        page.goto(address(service, lab, PAGES["slower"]))
        opened.scroll_through()
        button = page.locator("#figure-latency .explore")
        button.click()
        expect(page.locator("#figure-latency canvas")).to_be_visible()
        expect(page.locator("#figure-latency .drawing")).to_be_hidden()
        button.click()
        expect(page.locator("#figure-latency .drawing")).to_be_visible()
        opened.assert_in_order()


def test_the_command_can_be_copied(browser: Browser, service: Service, lab: Lab) -> None:
    with watched(browser, permissions=["clipboard-read", "clipboard-write"]) as opened:
        page = opened.page
        page.goto(address(service, lab, PAGES["slower"]))
        page.locator("button.copy").click()
        expect(page.locator("button.copy")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()").startswith("curl --json @- ")


def test_without_script_everything_is_reached_by_links(browser: Browser, service: Service, lab: Lab) -> None:
    with watched(browser, java_script_enabled=False) as opened:
        page = opened.page
        page.goto(address(service, lab, PAGES["slower"]))
        page.locator("#latency a").click()
        expect(page.locator("#figure-latency")).to_be_visible()
        page.goto(f"{service.url}/experiments?status=queued")
        page.get_by_label("Verdict").select_option("same")
        page.get_by_label("queued").uncheck()
        page.get_by_label("Submitted since").fill("2020-01-31")
        page.get_by_label("Sorted by").select_option("name")
        page.get_by_role("button", name="Filter").click()
        assert "verdict=same" in page.url
        assert "created_after=2020-01-31" in page.url
        assert "sort=name" in page.url
        expect(page.get_by_label("Submitted since")).to_have_value("2020-01-31")
        expect(page.locator("#first tr").first).to_be_visible()


def test_a_report_opens_without_a_network_and_fits(
    browser: Browser, service: Service, lab: Lab, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(service.http.get(f"/experiments/{lab['slower']}/report.html").content)
    for width in (PHONE, DESK):
        with watched(browser, width, offline=True) as opened:
            opened.page.goto(file.as_uri())
            expect(opened.page.locator(".hero .chip").first).to_be_visible()
            expect(opened.page.locator("#figure-verdict svg:visible")).to_be_visible()
            opened.assert_in_order()
            assert serious_problems(opened) == []


def test_a_report_prints_on_paper(browser: Browser, service: Service, lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_bytes(service.http.get(f"/experiments/{lab['slower']}/report.html").content)
    with watched(browser, scheme="dark") as opened:
        opened.page.goto(file.as_uri())
        opened.page.emulate_media(media="print", color_scheme="dark")
        ink: Any = opened.page.evaluate("getComputedStyle(document.documentElement).color")
        assert ink == "rgb(0, 0, 0)"
        assert len(opened.page.pdf(format="A4")) > 10_000
