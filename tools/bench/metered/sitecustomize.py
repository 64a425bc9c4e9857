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
from importlib.machinery import SourceFileLoader
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
_LOAD = SourceFileLoader.exec_module
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


def _exec_module(self: SourceFileLoader, module: ModuleType) -> None:
    _LOAD(self, module)
    if part := PARTS.get(module.__name__) or PARTS.get(module.__name__.rpartition(".")[0]):
        _meter(module, module.__name__, part)


def _write() -> None:
    (Path.cwd() / f"metered-{os.getpid()}.json").write_text(json.dumps(_used))


if sys.orig_argv[1:4] == ["-m", "app.cli", "run"]:
    SourceFileLoader.exec_module = _exec_module
    atexit.register(_write)
