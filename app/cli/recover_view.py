"""Plans and recoveries as documents and as text."""

import math
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import typer
from rich.console import Console
from rich.markup import escape

from app.cli.rendering import Document, age, moment, offsets, printable
from app.cli.snapshot_view import position_document, position_text, url_document
from app.recover.from_ledger import Resumption
from app.recover.journal import Step, StepState
from app.recover.recovering import Recovered
from app.recover.recovery_plan import RecoveryPlan

#: seconds between two lines of progress where stderr is no terminal
PROGRESS_SECONDS = 10.0
#: check of a plan -> runbook for its fault
_PAGES = {"topics": "topic-recreated.md", "retention": "retention-exceeded.md"}
_WIDTH = max(map(len, Step))


def resumed_document(found: Sequence[Resumption], *, done: bool) -> Document:
    lanes = [{"lane": one.lane, "position": one.position.nested(), "messages_at_most": one.messages} for one in found]
    return {"lanes": lanes, "done": done}


def resumed_text(document: Document) -> Iterator[str]:
    then = ". Next: surelane run" if document["done"] else "; nothing was changed"
    for one in document["lanes"]:
        replay = f"from {offsets(one['position'])}, at most {one['messages_at_most']} messages to replay"
        yield f"lane {one['lane']}: {replay}{then}"


def plan_document(plan: RecoveryPlan) -> Document:
    """`headroom_seconds` is null where it is unlimited or not known; see `headroom_known`."""
    finite = math.isfinite(plan.headroom_seconds)
    return {
        "snapshot": plan.manifest.name,
        "driver": plan.manifest.driver.value,
        "ok": plan.ok,
        **position_document(plan.manifest),
        "checks": [vars(check) for check in plan.checks],
        "running": None if plan.running is None else list(plan.running),
        "steps": list(plan.steps),
        "command": plan.command,
        "lost": list(plan.lost),
        "messages_at_most": plan.messages,
        "seconds": None if plan.seconds is None else round(plan.seconds, 1),
        "headroom_seconds": round(plan.headroom_seconds, 1) if finite else None,
        "headroom_known": not math.isnan(plan.headroom_seconds),
    }


def plan_text(document: Document) -> Iterator[str]:
    checks, seconds = document["checks"], document["seconds"]
    yield f"snapshot {document['snapshot']} ({document['driver']}): {position_text(document)}"
    yield "checked:"
    yield from (f"  {'ok' if one['ok'] else 'FAULT':<6} {one['what']}: {one['said']}" for one in checks)
    time = "how long it takes is unknown" if seconds is None else f"about {age(seconds)}"
    yield f"replay: at most {document['messages_at_most']:,} messages, {time}; Kafka keeps them {_headroom(document)}"
    yield "lost:"
    yield from (f"  {one}" for one in document["lost"])
    if not document["ok"]:
        yield "this does not lead there: see the faults above"
        faults = [one["what"] for one in checks if not one["ok"]]
        yield from (f"  {what}: ops/runbooks/{_PAGES[what]}" for what in faults if what in _PAGES)
        return
    yield "plan:"
    yield from (f"  {number}. {step}" for number, step in enumerate(document["steps"], 1))
    yield f"all of it in one go: {document['command']}"


def _headroom(document: Document) -> str:
    if not document["headroom_known"]:
        return "for a time that depends on what is written"
    seconds = document["headroom_seconds"]
    return "without limit of time" if seconds is None else f"for {age(seconds)} at least"


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


def course_text(document: Document) -> Iterator[str]:
    name, place = document["snapshot"], document["place"]
    if place is None:
        yield f"no recovery from {name} was begun"
        return
    yield f"recovery from {name} to {place['to']}: {'finished' if document['finished'] else 'not finished'}"
    for one in document["steps"]:
        is_done = one["state"] == StepState.DONE
        far = f": {replay_text(document['replay'])}" if one["step"] == Step.REPLAY and document["replay"] else ""
        yield _line(
            one["step"],
            f"{one['said']} ({one['at']})" if is_done else f"{one['state']}{far} {one['said']}".strip(),
        )
    for one in document["orders"]:
        why = f": {one['reason']}" if one["reason"] else ""
        yield f"called at {one['at']} by {one['who']}@{one['host']}{order_text(one)}{why}"
    if document["at_work"]:
        yield "it is at work"
    elif not document["finished"]:
        yield f"go on: surelane recover run --snapshot {name}"


def replay_text(replay: Document) -> str:
    """How far the replay is."""
    return f"{replay['done']:,} messages done, {replay['left']:,} left at {moment(replay['at'])}"


def order_text(order: Document) -> str:
    """What the call asked for."""
    port = f" at port {order['port']}" if order["port"] is not None else ""
    parts = [f"to {order['place']}{port}"] if order["place"] is not None else []
    parts += ["--roll-back-foreign"] if order["foreign"] else []
    parts += ["--anew"] if order["anew"] else []
    return f" ({', '.join(parts)})" if parts else ""


def recovered_document(done: Recovered) -> Document:
    """`url` is without the password, `shown` marks its place; null where the recovery was finished before."""
    return {
        "snapshot": done.snapshot,
        "ok": done.ok,
        **({"url": None, "shown": None} if done.url is None else url_document(done.url)),
        "checks": [vars(check) for check in done.checks],
        **done.course.as_json(),
    }


def recovered_text(document: Document) -> Iterator[str]:
    """What the operator does next."""
    if document["url"] is None:
        place = document["place"]
        yield f"{document['snapshot']} is recovered to {place['to'] if place else 'its place'}: nothing to do"
        yield from (_line(one["step"], one["said"]) for one in document["steps"])
        return
    if not document["ok"]:
        yield "this is not right: see FAULT above. What was lost stays where it is, nothing points to the new place yet"
        return
    yield "next, in the configuration:"
    yield "  target:"
    yield f"    url: {document['shown']}"
    yield "then:"
    yield "  surelane doctor"
    yield "  surelane run"


def _line(step: str, outcome: str) -> str:
    return f"{[*Step].index(Step(step)) + 1}. {step:<{_WIDTH}}  {outcome}"
