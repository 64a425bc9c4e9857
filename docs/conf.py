"""The documents as a site: `./run docs [FOLDER]` builds it with Sphinx, warnings are errors.

Pages are read where they lie, as the Markdown that a repository shows. Whatever they link to comes along: another
page, a section of it, a picture, a file. What is neither there nor in NAVIGATION is a warning.
"""

import shutil
from pathlib import Path

from sphinx.application import Sphinx

project = html_title = "Surelane"
extensions = ["myst_parser"]
root_doc = "README"
source_suffix = {".md": "markdown"}
include_patterns = ["README.md", "CHANGELOG.md", "docs/**.md", "ops/**.md", "tests/README.md"]
#: not looked into: everything else of a checkout
exclude_patterns = [".*", "app", "artifacts", "checkpoints", "data", "migrations", "tools", "var", "venv"]
#: links to sections, by GitHub's names for them
myst_heading_anchors = 4
highlight_language = "text"
smartquotes = False
#: brings its own styles, scripts and fonts; light and dark
html_theme = "furo"
html_copy_source = False

#: of a page: the pages below it, by caption
NAVIGATION = {
    "README": {
        "Use": [
            "docs/CONFIG",
            "docs/CLI",
            "docs/QUERIES",
            "docs/ROLLUPS",
            "docs/HISTORY",
            "docs/EVENTS",
            "docs/TYPES",
            "docs/VERDICTS",
        ],
        "Run": [
            *("docs/OPERATIONS", "ops/runbooks/README", "docs/CONSOLE", "docs/METRICS"),
            *("docs/DEPLOY", "docs/SECURITY", "ops/aws/README"),
        ],
        "Understand": [
            "docs/DESIGN",
            "docs/DATA_PLANE",
            "docs/POISON",
            "docs/RECOVERY",
            "docs/EXPERIMENTS",
            "docs/GLOSSARY",
            "docs/COMPARISON",
            "docs/BENCHMARKS",
        ],
        "Develop": ["docs/DEVELOPMENT", "tests/README", "docs/PROFILING", "CHANGELOG"],
    },
    "docs/DESIGN": {"Decisions": ["docs/decisions/*"]},
    "ops/runbooks/README": {"Runbooks": ["ops/runbooks/*"]},
}


def add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    """Behind the text of a page, seen in the site's sidebar only."""
    for caption, below in NAVIGATION.get(page, {}).items():
        entries = "\n".join(f"/{entry}" for entry in below)
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {caption}\n\n{entries}\n```\n"


def add_index(app: Sphinx, error: Exception | None) -> None:
    """The first page under the name that a server asks for."""
    if error is None and app.builder.format == "html":
        shutil.copyfile(Path(app.outdir) / "README.html", Path(app.outdir) / "index.html")


def setup(app: Sphinx) -> None:
    """Sphinx calls it."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", add_index)
