"""Prepared transactions as documents, and their text."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import RenderableType
from sqlalchemy import Row

from app.cli.rendering import Document, age, facts_table, grid, moment, ranges
from app.recover.answering import Given
from app.recover.answers import AnswerState
from app.recover.in_doubt_overview import InDoubt, InDoubtOverview
from app.recover.verdict import PAST, OperatorAnswer

#: most lines shown of each kind; `--json` has all
MAX_LINES = 20
_WITHHELD = "not shown: guard.redact hides columns"
_ANSWER = ("id", "lane", "gid", "generation", "epoch", "answer", "verdict", "forced", "reason", "evidence")
_WHO = ("db_user", "os_user", "host", "state", "outcome")
_UNFINISHED = ("id", "lane", "gid", "answer", "forced", "reason", "os_user", "host")


def transaction_document(one: InDoubt, redact: Collection[str]) -> Document:
    """Under `guard.redact` the SQL of blocked sessions is withheld, since it may have values of hidden columns."""
    hidden = {"query": _WITHHELD} if redact else {}
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
        "blocks": [asdict(session) | hidden for session in one.holding.blocks],
    }


def list_document(lane: str, found: InDoubtOverview, redact: Collection[str]) -> Document:
    return {
        "lane": lane,
        "transactions": [transaction_document(one, redact) for one in found.transactions],
        "slots": {"used": found.used, "limit": found.limit},
        "unfinished": [
            {name: getattr(row, name) for name in _UNFINISHED} | {"at": row.at.isoformat()} for row in found.unfinished
        ],
    }


def answers_document(lane: str, rows: Sequence[Row[Any]], total: int) -> Document:
    found = [
        {name: getattr(row, name) for name in (*_ANSWER, *_WHO)}
        | {"at": row.at.isoformat(), "ended_at": row.ended_at.isoformat() if row.ended_at else None}
        for row in rows
    ]
    return {"lane": lane, "total": total, "answers": found}


def given_document(one: Given) -> Document:
    return asdict(one) | {"answer": one.answer.value, "verdict": one.verdict.value}


def list_text(document: Document) -> Iterator[RenderableType]:
    rows = [
        (
            one["gid"],
            age(one["age_seconds"]),
            one["owner"],
            one["verdict"],
            _some(one["tables"], ", "),
            str(len(one["locks"])),
            {0: "no session", 1: "1 session"}.get(count := len(one["blocks"]), f"{count} sessions"),
        )
        for one in document["transactions"]
    ]
    columns = ("gid", "age", "owner", "verdict", "tables", "locks", "blocks")
    yield grid(columns, rows) if rows else "nothing is prepared in this database"
    slots = document["slots"]
    yield f"{slots['used']} of {slots['limit']} prepared transactions of the server in use"
    for one in document["unfinished"]:
        begun = f"answer {one['id']}, {one['answer']} of {one['gid']}, was begun"
        yield f"{begun} and its end is not on record: give it again"


def explain_text(one: Document) -> Iterator[RenderableType]:
    lines = {
        "gid": one["gid"],
        "prepared": f"{moment(one['prepared_at'])}, {age(one['age_seconds'])} ago, by {one['owner']}",
        "tables": _some(one["tables"], ", "),
        "verdict": one["verdict"],
    }
    yield facts_table(lines | (_evidence(one) if one["evidence"] else {}))
    held = Counter(f"{lock['mode']} on {lock['place']}" for lock in one["locks"])
    sections = {
        "why": one["why"],
        "what to do": one["next"],
        "locks": _some([f"{line} ({n} times)" if n > 1 else line for line, n in held.items()]),
        "blocks": _some(list(map(_waiter, one["blocks"])), nothing="no session"),
    }
    for title, text in sections.items():
        yield f"\n{title}\n{text}"


def answers_text(document: Document) -> Iterator[RenderableType]:
    rows = [
        (
            str(one["id"]),
            moment(one["at"], zone=False),
            one["gid"],
            one["verdict"],
            f"{one['answer']}, forced" if one["forced"] else one["answer"],
            f"{one['state']}: {one['outcome']}" if one["state"] == AnswerState.FAILED else one["state"],
            f"{one['os_user']}@{one['host']} as {one['db_user']}",
            one["reason"] or "",
        )
        for one in document["answers"]
    ]
    if not rows:
        yield "no answers are on record"
        return
    yield grid(("id", "at (UTC)", "gid", "verdict", "answer", "state", "by", "reason"), rows)
    yield f"{len(rows)} of {document['total']}"


def given_text(one: Document) -> Iterator[str]:
    """An answer that was given, and its consequence."""
    past = PAST[OperatorAnswer(one["answer"])]
    text = f"{one['gid']} {past}, answer {one['id']}"
    if one["before"]:
        text = f"{one['gid']} was {past} before; now on record as answer {one['id']}"
    if one["forced"]:
        text += ", forced"
    if one["consequence"]:
        text += f"\n  {one['consequence']}"
    yield text


def _evidence(one: Document) -> dict[str, str]:
    seen, epoch = one["evidence"], one["epoch"]
    ran = f"generation {one['generation']} ran on {seen['of_generation'] or 'none that is known'}"
    lines = {
        "lane": f"{one['lane']}, " + (f"runs (backend {seen['holder']})" if seen["holder"] else "does not run"),
        "checkpoint": f"{seen['checkpoint'] or seen['trouble']} at {seen['location']}; {ran}",
        f"offsets/{epoch}": _there(seen["planned"]),
        f"commits/{epoch}": _there(seen["complete"]),
        "ledger row": _there(seen["ledger_row"]),
    }
    if seen["span"] is not None:
        lines["messages"] = ranges(seen["span"], ", ") or "none"
    return lines


def _there(there: bool | None) -> str:
    return "not known" if there is None else "exists" if there else "does not exist"


def _waiter(session: Document) -> str:
    who = ", ".join(filter(None, (session["user"], session["application"])))
    queue = "behind one of these, " if session["behind"] else ""
    wants = f"{queue}wants {session['mode']} on {session['place']}"
    return f"backend {session['pid']} ({who}) for {age(session['seconds'])}: {wants}: {session['query']}"


def _some(lines: Sequence[str], between: str = "\n", nothing: str = "none") -> str:
    more = [f"... and {len(lines) - MAX_LINES} more"] if len(lines) > MAX_LINES else []
    return between.join([*lines[:MAX_LINES], *more]) or nothing
