"""Make the pictures in docs/images anew: python -m tests.support.pictures"""

import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from app.settings import Settings
from app.store.database import Database
from benchmarks.support.service import ROOT, serving
from tests.support.browser import DESK, PHONE, launch, watched
from tests.support.stories import LEASE_S, a_lab

IMAGES = ROOT / "docs" / "images"
# name: (path, width, height, scheme, what to scroll to)
PICTURES = {
    "experiments": ("/experiments", DESK, 900, "light", ""),
    "verdict": ("/experiments/{slower}", DESK, 900, "light", ""),
    "verdict-same-dark": ("/experiments/{tie}", DESK, 900, "dark", ""),
    "verdict-confounded": ("/experiments/{confounded}", DESK, 760, "light", ""),
    "running-dark": ("/experiments/{running}", DESK, 900, "dark", ""),
    "rollout-shape": ("/experiments/{slower}", DESK, 900, "light", "#latency"),
    "inside-the-engine": ("/experiments/{confounded}", DESK, 900, "light", "#shape"),
    "submit": ("/submit?like={slower}", DESK, 900, "light", ""),
    "compare": ("/compare?experiment={tie}&experiment={slower}", DESK, 900, "light", ""),
    "phone-dark": ("/experiments/{tie}", PHONE, 900, "dark", ""),
}


def main() -> None:
    """Fill a laboratory, serve it, look at it."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(data_dir=Path(directory), lease_s=LEASE_S)
        db = Database(settings.url)
        db.upgrade()
        ids = {name.replace(" ", "_"): one for name, one in a_lab(db).ids.items()}
        with serving(settings) as service, sync_playwright() as playwright:
            browser = launch(playwright)
            for name, (path, width, height, scheme, place) in PICTURES.items():
                with watched(browser, width, scheme, reduced_motion="reduce") as opened:
                    page = opened.page
                    page.set_viewport_size({"width": width, "height": height})
                    page.goto(service.url + path.format(**ids))
                    if place:
                        opened.scroll_through()
                        page.evaluate("place => document.querySelector(place).scrollIntoView()", place)
                    page.wait_for_timeout(1500)
                    page.screenshot(path=IMAGES / f"{name}.png")
                    opened.assert_in_order()
            browser.close()


if __name__ == "__main__":
    main()
