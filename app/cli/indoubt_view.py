"""Prepared transactions as tables, text and JSON."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from sqlalchemy import Row

from app.cli.rendering import age, facts_table, grid, printable, ranges, utc
from app.db.lock_inspection import LockWaiter
from app.recover.answering import Given
from app.recover.answers import AnswerState
from app.recover.in_doubt_overview import InDoubt
from app.recover.verdict import PAST

#: most lines shown of each kind; `--json` has all
MAX_LINES = 20
_WITHHELD = "not shown: guard.redact hides columns"
_ANSWER = ("id", "lane", "gid", "generation", "epoch", "answer", "verdict", "forced", "reason", "evidence")
_WHO = ("db_user", "os_user", "host", "state", "outcome")
_UNFINISHED = ("id", "lane", "gid", "answer", "forced", "reason", "os_user", "host")


def as_json(one: InDoubt, redact: Collection[str]) -> dict[str, Any]:
    return {
        "gid": one.prepared.gid,
        "lane": one.gid.lane if one.gid else None,
        "generation": one.gid.generation if one.gid else None,
        "epoch": one.gid.epoch if one.gid else None,
        "owner": one.prepared.owner,
        "prepared_at": one.prepared.prepared_at.isoformat(),
        "age_seconds": round(one.prepared.age_seconds, 3),
        "verdict": one.verdict.value,
        "why": one.why,
        "next": one.next,
        "answer": one.right.value if one.right else None,
        "evidence": one.evidence.as_json() if one.evidence else None,
        "tables": list(one.holding.tables),
        "locks": [asdict(lock) for lock in one.holding.locks],
        "blocks": [asdict(session) | {"query": _query(session, redact)} for session in one.holding.blocks],
    }


def unfinished(row: Row[Any]) -> dict[str, Any]:
    """An answer whose process died before it recorded the outcome, for `--json`."""
    return {name: getattr(row, name) for name in _UNFINISHED} | {"at": row.at.isoformat()}


def answer_json(row: Row[Any]) -> dict[str, Any]:
    """An answer on record, for `--json`."""
    plain = {name: getattr(row, name) for name in (*_ANSWER, *_WHO)}
    return plain | {"at": row.at.isoformat(), "ended_at": row.ended_at.isoformat() if row.ended_at else None}


def answered(rows: Sequence[Row[Any]]) -> Table:
    """A line for each answer on record."""
    lines = [
        (
            str(row.id),
            utc(row.at, zone=False),
            row.gid,
            row.verdict,
            f"{row.answer}, forced" if row.forced else row.answer,
            f"{row.state}: {row.outcome}" if row.state == AnswerState.FAILED else row.state,
            f"{row.os_user}@{row.host} as {row.db_user}",
            row.reason or "",
        )
        for row in rows
    ]
    return grid(("id", "at (UTC)", "gid", "verdict", "answer", "state", "by", "reason"), lines)


def given(one: Given) -> dict[str, Any]:
    """An answer that was given, for `--json`."""
    plain = {"id": one.id, "gid": one.gid, "answer": one.answer.value, "verdict": one.verdict.value}
    return plain | {"forced": one.forced, "before": one.before}


def given_text(one: Given) -> str:
    """An answer that was given, and its consequence."""
    text = f"{one.gid} {PAST[one.answer]}, answer {one.id}"
    if one.before:
        text = f"{one.gid} was {PAST[one.answer]} before; now on record as answer {one.id}"
    if one.forced:
        text += ", forced"
    if one.consequence:
        text += f"\n  {one.consequence}"
    return printable(text)


def listed(found: Sequence[InDoubt]) -> Table:
    """A line for each transaction."""
    rows = [
        (
            one.prepared.gid,
            age(one.prepared.age_seconds),
            one.prepared.owner,
            one.verdict.value,
            _some(one.holding.tables, ", "),
            str(len(one.holding.locks)),
            _sessions(len(one.holding.blocks)),
        )
        for one in found
    ]
    return grid(("gid", "age", "owner", "verdict", "tables", "locks", "blocks"), rows)


def facts(one: InDoubt) -> Table:
    """A transaction with its evidence."""
    lines = {
        "gid": one.prepared.gid,
        "prepared": f"{utc(one.prepared.prepared_at)}, {age(one.prepared.age_seconds)} ago, by {one.prepared.owner}",
        "tables": _some(one.holding.tables, ", "),
        "verdict": one.verdict.value,
    }
    return facts_table(lines | _evidence(one))


def sections(one: InDoubt, redact: Collection[str]) -> Iterator[tuple[str, str]]:
    """Title and text of the longer parts."""
    yield "why", printable(one.why)
    yield "what to do", printable(one.next)
    held = Counter(f"{lock.mode} on {lock.place}" for lock in one.holding.locks)
    yield "locks", printable(_some([f"{line} ({n} times)" if n > 1 else line for line, n in held.items()]))
    yield (
        "blocks",
        printable(_some([_waiter_text(session, redact) for session in one.holding.blocks], nothing="nobody")),
    )


def _sessions(count: int) -> str:
    return "nobody" if not count else "1 session" if count == 1 else f"{count} sessions"


def _evidence(one: InDoubt) -> dict[str, str]:
    seen = one.evidence
    if seen is None or one.gid is None:
        return {}
    ran = f"generation {one.gid.generation} ran on {seen.of_generation or 'none that is known'}"
    lines = {
        "lane": f"{one.gid.lane}, " + (f"runs (backend {seen.holder})" if seen.holder else "does not run"),
        "checkpoint": f"{seen.checkpoint or seen.trouble} at {seen.location}; {ran}",
        f"offsets/{one.gid.epoch}": _there(seen.planned),
        f"commits/{one.gid.epoch}": _there(seen.complete),
        "ledger row": _there(seen.ledger_row),
    }
    if seen.span is not None:
        lines["messages"] = ranges(seen.span, ", ") or "none"
    return lines


def _there(there: bool | None) -> str:
    return "not known" if there is None else "exists" if there else "does not exist"


def _waiter_text(session: LockWaiter, redact: Collection[str]) -> str:
    who = ", ".join(filter(None, (session.user, session.application)))
    queue = "behind one of these, " if session.behind else ""
    wants = f"{queue}wants {session.mode} on {session.place}"
    return f"backend {session.pid} ({who}) for {age(session.seconds)}: {wants}: {_query(session, redact)}"


def _query(session: LockWaiter, redact: Collection[str]) -> str:
    """The session's SQL; withheld under `guard.redact`, since it may have values of hidden columns."""
    return _WITHHELD if redact else session.query


def _some(lines: Sequence[str], between: str = "\n", nothing: str = "none") -> str:
    more = [f"... and {len(lines) - MAX_LINES} more"] if len(lines) > MAX_LINES else []
    return between.join([*lines[:MAX_LINES], *more]) or nothing
