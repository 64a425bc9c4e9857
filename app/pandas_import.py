"""PyArrow imports pandas with its first array, where it is installed: 0.27 s of a start. Only queries need it."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_NAME = "pandas"


class _NotInstalled:
    """A finder of modules for which pandas is not installed."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        del path, target
        if name == _NAME:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return None


def have_arrow_skip_pandas() -> None:
    """Call it before the first array. What imports pandas later gets it, and `to_pandas` works; before that PyArrow
    takes a Series for any sequence."""
    import pyarrow as pa

    sys.meta_path.insert(0, _NotInstalled)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_NotInstalled)
