"""Debian's Chromium, driven by Playwright through the pages of the console."""

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Playwright, expect, sync_playwright

from tests.debian_programs import tree
from tests.fix_console import TOKEN, WHO, Client

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}
#: rules of WCAG 2.1, levels A and AA
AXE_OPTIONS = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
TIMEOUT_MS = 30_000
#: milliseconds in which a page shows what has happened
LIVE_MS = 20_000


@dataclass
class Window:
    """A page of the browser, and what went wrong in it."""

    page: Page
    client: Client
    #: errors of scripts, and what the policy of content refused
    faults: list[str] = field(default_factory=list)
    #: dialogs that were opened: hostile data tries to
    dialogs: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """Go there, and wait until the page is live, if it becomes so."""
        answer = self.page.goto(self.client.origin + path, wait_until="load")
        assert answer is not None
        assert answer.status < 500, self.page.content()
        return self.page

    def until_live(self) -> None:
        self.page.wait_for_selector("#live-state[data-live=yes]", timeout=TIMEOUT_MS)

    def log_in(self, who: str = WHO, token: str = TOKEN) -> None:
        page = self.open("/login")
        page.fill("#who", who)
        page.fill("#token", token)
        page.click("main button")
        page.wait_for_url("**/lanes/**" if "/lanes/" in page.url else self.client.origin + "/", timeout=TIMEOUT_MS)

    def violations(self) -> list[str]:
        """What axe finds on the page as it is."""
        found = Axe().run(self.page, options=AXE_OPTIONS).response["violations"]
        return [
            f"{one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
            for one in found
            for node in one["nodes"]
        ]

    def text(self) -> str:
        return self.page.inner_text("body")


def main_text(page: Page, text: str, timeout_ms: int = LIVE_MS) -> None:
    """Wait until the page shows it, without being loaded again."""
    expect(page.locator("main")).to_contain_text(text, timeout=timeout_ms)


@contextmanager
def not_loaded_again(page: Page) -> Iterator[None]:
    page.evaluate("window.mark = 1")
    yield
    assert page.evaluate("window.mark") == 1


def clean(window: Window) -> None:
    assert (window.faults, window.dialogs) == ([], [])


@dataclass
class Windows:
    """`with windows(client) as window`: a browser of its own cookies."""

    browser: Browser

    @contextmanager
    def __call__(self, client: Client, *, dark: bool = False, phone: bool = False) -> Iterator[Window]:
        viewport: Any = PHONE if phone else DESK
        context = self.browser.new_context(
            viewport=viewport, color_scheme="dark" if dark else "light", reduced_motion="reduce"
        )
        context.set_default_timeout(TIMEOUT_MS)
        page = context.new_page()
        window = Window(page, client)

        def heard(message: ConsoleMessage) -> None:
            if message.type == "error" and "status of 4" not in message.text:
                window.faults.append(message.text)

        def asked(dialog: Dialog) -> None:
            window.dialogs.append(dialog.message)
            dialog.dismiss()

        page.on("console", heard)
        page.on("pageerror", lambda error: window.faults.append(str(error)))
        page.on("dialog", asked)
        try:
            yield window
        finally:
            context.close()


def _program() -> tuple[Path, dict[str, str]]:
    """The browser, and the environment it needs."""
    if found := shutil.which("chromium-headless-shell") or shutil.which("chromium"):
        return Path(found), {}
    folder = tree("chromium-headless-shell", "fonts-dejavu-core")
    places = {path.parent for path in folder.rglob("*.so*")}
    libraries = ":".join(sorted(map(str, places)))
    return folder / "usr/lib/chromium/chromium-headless-shell", {"LD_LIBRARY_PATH": libraries}


@pytest.fixture(scope="session")
def _playwright() -> Iterator[Playwright]:
    with sync_playwright() as found:
        yield found


@pytest.fixture(scope="session")
def _browser(_playwright: Playwright) -> Iterator[Browser]:
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip(f"there is no Chromium for {platform.machine()}")
    program, environment = _program()
    browser = _playwright.chromium.launch(
        executable_path=program,
        env={**os.environ, **environment},
        args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"],
    )
    yield browser
    browser.close()


@pytest.fixture
def windows(_browser: Browser) -> Windows:
    """`with windows(client, dark=True) as window`; skipped where no Chromium can be had."""
    return Windows(_browser)
