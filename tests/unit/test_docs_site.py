"""`./run docs`: builds without a network, has every page, and asks no other host for anything."""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

TOP = Path(__file__).resolve().parents[2]
BUILD_SECONDS = 120.0
#: no server listens there
NOWHERE = "http://127.0.0.1:9"
_ELSEWHERE = re.compile(r"""(?:url\(\s*|@import\s+)["']?(?:https?:)?//""")


class Page(HTMLParser):
    """What a page of the site refers to, and what can be referred to in it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids, self.links, self.loads = set[str](), list[str](), list[str]()
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src", "srcset", "data", "poster") and value:
                (self.links if tag == "a" else self.loads).append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = subprocess.run(
        [*without_network(), str(TOP / "run"), "docs", str(folder)],
        env=os.environ | dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE),
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS,
    )
    assert built.returncode == 0, built.stderr
    return folder


def without_network() -> list[str]:
    """A command that runs another one where there is no network; nothing where that is not allowed."""
    program = shutil.which("unshare")
    if program is None or subprocess.run([program, "--net", "true"], capture_output=True, check=False).returncode:
        return []
    return [program, "--net"]


@cache
def pages(folder: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in folder.rglob("*.html") if "_static" not in file.parts}


def test_every_document_is_a_page(site: Path) -> None:
    documents = [TOP / "README.md", TOP / "CHANGELOG.md", TOP / "tests/README.md"]
    documents += [*(TOP / "docs").rglob("*.md"), *(TOP / "ops").rglob("*.md")]
    wanted = {site / document.relative_to(TOP).with_suffix(".html") for document in documents}
    assert wanted | {site / "index.html"} <= set(pages(site))


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    asked = {(file.name, url) for file, page in pages(site).items() for url in page.loads}
    assert asked
    assert [one for one in asked if urlsplit(one[1]).netloc or urlsplit(one[1]).scheme not in ("", "data")] == []
    assert [style.name for style in site.rglob("*.css") if _ELSEWHERE.search(style.read_text())] == []


def test_every_link_leads_somewhere(site: Path) -> None:
    faults: list[str] = []
    for file, page in pages(site).items():
        for url in [*page.links, *page.loads]:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            to = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            known = pages(site).get(to)
            if not to.exists() or (parts.fragment and known and unquote(parts.fragment) not in known.ids):
                faults.append(f"{file.relative_to(site)}: {url}")
    assert faults == []


def test_the_architecture_is_in_the_first_page(site: Path) -> None:
    assert any(url.endswith("architecture.svg") for url in pages(site)[site / "index.html"].loads)


def test_what_is_broken_stops_the_build(tmp_path: Path) -> None:
    """A link to nothing, one to no section, and a page that the navigation does not have."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# One\n\n[a](docs/GONE.md), [b](docs/LOST.md#no-such-section)\n")
    (tmp_path / "docs/LOST.md").write_text("# Two\n")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "-q",
        "-b",
        "dummy",
        "-c",
        TOP / "docs",
        tmp_path,
        tmp_path / "site",
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
    assert built.returncode != 0
    for fault in ("docs/GONE.md", "no-such-section", "LOST.md: WARNING: document isn't included in any toctree"):
        assert fault in built.stderr
