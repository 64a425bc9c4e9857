"""This process in the kernel."""

import subprocess
import sys

_PROGRAM = """
from app.process import use_small_pages
use_small_pages()
print(open("/proc/self/status").read())
"""


def test_small_pages() -> None:
    found = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert "THP_enabled:\t0" in found.stdout.splitlines()
