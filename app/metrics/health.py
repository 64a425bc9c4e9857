"""Health: the answers of /healthz and /readyz.

Live: no failure that a restart of the process would repair. Ready: every lane applies messages. A lane that waits for a
restarting database is live and not ready; one that gave up is neither.
"""

import threading
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class HealthAnswer:
    """The result of a check, with its reason."""

    ok: bool
    reason: str


@dataclass(frozen=True, kw_only=True)
class _Report:
    live: bool
    ready: bool
    reason: str


class Health:
    """The last report of each lane of this process; safe to use from any thread."""

    def __init__(self) -> None:
        self._reports: dict[str, _Report] = {}
        self._lock = threading.Lock()

    def report(self, lane: str, *, ready: bool, reason: str, live: bool = True) -> None:
        """Set the state of a lane, for example `report("orders", ready=False, reason="starting")`."""
        with self._lock:
            self._reports[lane] = _Report(live=live, ready=ready, reason=reason)

    def live(self) -> HealthAnswer:
        """Whether no lane is broken."""
        with self._lock:
            broken = [f"{lane}: {report.reason}" for lane, report in self._reports.items() if not report.live]
        return HealthAnswer(ok=not broken, reason="; ".join(broken) or "alive")

    def ready(self) -> HealthAnswer:
        """Whether there is a lane and all of them apply messages."""
        with self._lock:
            reports = dict(self._reports)
        waiting = [f"{lane}: {report.reason}" for lane, report in reports.items() if not report.ready]
        ok = bool(reports) and not waiting
        return HealthAnswer(ok=ok, reason="; ".join(waiting) or ("ready" if ok else "no lane has started yet"))
