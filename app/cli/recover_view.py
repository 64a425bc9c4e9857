"""Plans and recoveries as text and as JSON."""

import math
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import typer
from rich.console import Console
from rich.markup import escape

from app.cli.rendering import age, printable
from app.cli.snapshot_view import position
from app.recover.journal import Course, Step, StepState
from app.recover.recovering import Recovered
from app.recover.recovery_plan import RecoveryPlan

#: seconds between two lines of progress where stderr is no terminal
PROGRESS_SECONDS = 10.0
#: check of a plan -> runbook for its fault
_PAGES = {"topics": "topic-recreated.md", "retention": "retention-exceeded.md"}
_WIDTH = max(map(len, Step))


def plan_json(plan: RecoveryPlan) -> dict[str, Any]:
    """For `--json`. `headroom_seconds` is null where it is unlimited or not known; see `headroom_known`."""
    finite = math.isfinite(plan.headroom_seconds)
    return {
        "snapshot": plan.manifest.name,
        "ok": plan.ok,
        "position": plan.manifest.seen.position.nested(),
        "exact": plan.manifest.exact,
        "checks": [vars(check) for check in plan.checks],
        "steps": list(plan.steps),
        "command": plan.command,
        "lost": list(plan.lost),
        "messages_at_most": plan.messages,
        "seconds": None if plan.seconds is None else round(plan.seconds, 1),
        "headroom_seconds": round(plan.headroom_seconds, 1) if finite else None,
        "headroom_known": not math.isnan(plan.headroom_seconds),
    }


def plan_text(plan: RecoveryPlan) -> str:
    return printable("\n".join(_lines(plan)))


def _lines(plan: RecoveryPlan) -> Iterator[str]:
    yield f"snapshot {plan.manifest.name} ({plan.manifest.driver}): {position(plan.manifest)}"
    yield "checked:"
    for check in plan.checks:
        yield f"  {'ok' if check.ok else 'FAULT':<6} {check.what}: {check.said}"
    time = "nothing tells how long it takes" if plan.seconds is None else f"about {age(plan.seconds)}"
    yield f"replay: at most {plan.messages:,} messages, {time}; Kafka keeps them {_headroom(plan.headroom_seconds)}"
    yield "lost:"
    yield from (f"  {one}" for one in plan.lost)
    if not plan.ok:
        yield "this does not lead there: see the faults above"
        yield from (
            f"  {one.what}: ops/runbooks/{_PAGES[one.what]}" for one in plan.checks if not one.ok and one.what in _PAGES
        )
        return
    yield "plan:"
    yield from (f"  {number}. {step}" for number, step in enumerate(plan.steps, 1))
    yield f"all of it in one go: {plan.command}"


def _headroom(seconds: float) -> str:
    if math.isnan(seconds):
        return "for a time that depends on what is written"
    return "without limit of time" if math.isinf(seconds) else f"for {age(seconds)} at least"


class RecoveryProgress:
    """Shows a recovery in progress: a line on stdout for each finished step, the present activity on stderr."""

    def __init__(self, *, quiet: bool) -> None:
        """`quiet`: write nothing to stdout, which a program reads."""
        self._quiet = quiet
        self._stderr = Console(stderr=True)
        self._status = self._stderr.status("recover ...") if self._stderr.is_terminal else None
        self._printed_at = time.monotonic()

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._status:
            self._status.stop()

    def say(self, step: Step, outcome: str) -> None:
        """Print a finished step."""
        if self._quiet:
            return
        if self._status:
            self._status.stop()
        typer.echo(printable(_line(step, outcome)))
        if self._status:
            self._status.start()

    def progress(self, words: str) -> None:
        """Show the present activity; where stderr is no terminal, at most every PROGRESS_SECONDS."""
        if self._status:
            self._status.update(escape(words))
        elif time.monotonic() - self._printed_at > PROGRESS_SECONDS:
            self._printed_at = time.monotonic()
            typer.echo(printable(words), err=True)


def recovered_json(done: Recovered) -> dict[str, Any]:
    url = None if done.url is None else done.url.set(password=None).render_as_string()
    checks = [vars(check) for check in done.checks]
    return {"snapshot": done.snapshot, "ok": done.ok, "url": url, "checks": checks, **done.course.as_json()}


def recovered_text(done: Recovered) -> str:
    """What the operator does next."""
    return printable("\n".join(_next(done)))


def course_text(name: str, course: Course) -> str:
    return printable("\n".join(_course(name, course)))


def _next(done: Recovered) -> Iterator[str]:
    if done.url is None:
        place = done.course.place
        yield f"{done.snapshot} is recovered to {place.to if place else 'its place'}: nothing to do"
        yield from (_line(step, one.said) for step, one in done.course.steps.items())
        return
    if not done.ok:
        yield "this is not right: see FAULT above. What was lost stays where it is, nothing points to the new place yet"
        return
    yield "next, in the configuration:"
    yield "  target:"
    yield f"    url: {done.url.render_as_string(hide_password=True)}"
    yield "then:"
    yield "  surelane doctor"
    yield "  surelane run"


def _course(name: str, course: Course) -> Iterator[str]:
    if course.place is None:
        yield f"no recovery from {name} was begun"
        return
    yield f"recovery from {name} to {course.place.to}: {'finished' if course.finished else 'not finished'}"
    for step, one in course.steps.items():
        outcome = f"{one.said} ({one.at})" if one.state is StepState.DONE else f"{one.state} {one.said}".strip()
        yield _line(step, outcome)
    if not course.finished:
        yield f"go on: surelane recover run --snapshot {name}"


def _line(step: Step, outcome: str) -> str:
    number = list(Step).index(step) + 1
    return f"{number}. {step:<{_WIDTH}}  {outcome}"
