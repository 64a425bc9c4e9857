"""What the image removes of installed packages is there: `rm` fails where it is not, and the image is not built."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
REMOVED = re.search(
    r"^RUN rm -r (?P<paths>.*?) && for ", (TOP / "Dockerfile").read_text().replace("\\\n", ""), re.MULTILINE
)
PATHS = REMOVED["paths"].split() if REMOVED else []


def test_the_list_is_found() -> None:
    assert "pyspark/examples" in PATHS


@pytest.mark.parametrize("path", PATHS)
def test_it_is_part_of_an_installed_package(path: str) -> None:
    package, _, rest = path.partition("/")
    spec = find_spec(package)
    assert spec is not None, f"{package} is not among the requirements"
    assert spec.submodule_search_locations
    assert list(Path(spec.submodule_search_locations[0]).glob(rest))
