"""A browser that nobody can talk out of this host, and that keeps a record of what goes wrong."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, Route, expect

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1", None})
PHONE, DESK = 380, 1440
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass(frozen=True)
class Watched:
    """A page, the errors on its console, and the requests that wanted to leave the host."""

    page: Page
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def scroll_through(self) -> None:
        """See all of it, so that everything loads that loads when it is seen."""
        for name in self.page.locator(".later").evaluate_all("parts => parts.map(part => part.id)"):
            self.page.evaluate("name => document.getElementById(name).scrollIntoView({behavior: 'instant'})", name)
            expect(self.page.locator(f"#{name}.later")).to_have_count(0, timeout=30_000)

    def is_as_wide_as_it_should_be(self) -> bool:
        """Whether nothing is to be found by scrolling sideways."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))

    def assert_in_order(self) -> None:
        """Nothing went wrong, and nothing wanted to leave."""
        assert self.errors == []
        assert self.strangers == []
        assert self.is_as_wide_as_it_should_be()


@contextmanager
def watched(browser: Browser, width: int = DESK, scheme: Any = "light", **context: Any) -> Iterator[Watched]:
    """A window of this width."""
    window = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **context)
    found = Watched(window.new_page())

    def guard(route: Route) -> None:
        if urlsplit(route.request.url).hostname in LOOPBACK:
            route.continue_()
        else:
            found.strangers.append(route.request.url)
            route.abort()

    def heard(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            found.errors.append(message.text)

    window.route("**/*", guard)
    found.page.on("console", heard)
    found.page.on("pageerror", lambda error: found.errors.append(str(error)))
    yield found
    window.close()


def launch(playwright: Playwright) -> Browser:
    """A browser that talks to nobody of its own accord."""
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        pytest.fail(f"no browser: the page tests need one of {', '.join(CHROMIUM)}")
    return playwright.chromium.launch(executable_path=Path(path), args=ARGUMENTS)
