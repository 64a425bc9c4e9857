"""Measures the CPU time of a lane's metrics, accounting and guard. Every Python process imports this module at its
start if this folder is first on its path.

Each function of the modules below is timed in CPU seconds of its thread, unless the call comes from the same part.
They are called a few times an epoch, so the overhead of the timing is negligible. Waiting is not counted, nor is what
the target does for them. At exit the totals go to `metered-<pid>.json` in the working directory of the process.
"""

import atexit
import functools
import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

#: module, or package with its modules -> part
PARTS = {
    "app.metrics": "metrics",
    # the thread that checks lag and prepared transactions each second
    "app.worker.monitor": "metrics",
    "app.model.counts": "accounting",
    "app.poison": "guard",
    "app.quarantine": "guard",
}
_used = dict.fromkeys(PARTS.values(), 0.0)
_lock = threading.Lock()
_inside = threading.local()


def _metered(function: Callable[..., Any], part: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        parts: set[str] = _inside.__dict__.setdefault("parts", set())
        if part in parts:
            return function(*args, **kwargs)
        parts.add(part)
        begin = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            seconds = time.thread_time() - begin
            parts.discard(part)
            with _lock:
                _used[part] += seconds

    return timed


def _meter(owner: Any, module: str, part: str) -> None:
    """Wrap the functions that a module or class defines. Generator functions are left out: the code between two steps
    belongs to the caller."""
    for name, found in list(vars(owner).items()):
        if isinstance(found, FunctionType) and found.__module__ == module:
            if not inspect.isgeneratorfunction(inspect.unwrap(found)):
                setattr(owner, name, _metered(found, part))
        elif isinstance(found, property) and found.fget:
            setattr(owner, name, property(_metered(found.fget, part)))
        elif inspect.isclass(found) and found.__module__ == module and found is not owner:
            _meter(found, module, part)


class _Loader(Loader):
    def __init__(self, loader: Loader, part: str) -> None:
        self._loader, self._part = loader, part

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _meter(module, module.__name__, self._part)


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        part = PARTS.get(fullname) or PARTS.get(fullname.rpartition(".")[0])
        spec = PathFinder.find_spec(fullname, path, target) if part else None
        if part and spec and spec.loader:
            spec.loader = _Loader(spec.loader, part)
        return spec


def _write() -> None:
    (Path.cwd() / f"metered-{os.getpid()}.json").write_text(json.dumps(_used))


if sys.orig_argv[1:4] == ["-m", "app.cli", "run"]:
    sys.meta_path.insert(0, _Finder())
    atexit.register(_write)
