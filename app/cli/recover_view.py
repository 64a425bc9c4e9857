"""Plans for people and for programs."""

import math
from collections.abc import Iterator
from typing import Any

from app.cli.indoubt_view import age
from app.cli.quarantine_view import printable
from app.cli.snapshot_view import position
from app.recover.plan import Plan


def plan_json(plan: Plan) -> dict[str, Any]:
    """For `--json`. A headroom without limit, or that is not known, is null; `headroom_known` tells which."""
    finite = math.isfinite(plan.headroom_seconds)
    return {
        "snapshot": plan.manifest.name,
        "ok": plan.ok,
        "position": plan.manifest.seen.position.nested(),
        "exact": plan.manifest.exact,
        "checks": [vars(check) for check in plan.checks],
        "steps": list(plan.steps),
        "lost": list(plan.lost),
        "messages_at_most": plan.messages,
        "seconds": None if plan.seconds is None else round(plan.seconds, 1),
        "headroom_seconds": round(plan.headroom_seconds, 1) if finite else None,
        "headroom_known": not math.isnan(plan.headroom_seconds),
    }


def plan_told(plan: Plan) -> str:
    """In sentences."""
    return printable("\n".join(_lines(plan)))


def _lines(plan: Plan) -> Iterator[str]:
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
        return
    yield "plan:"
    yield from (f"  {number}. {step}" for number, step in enumerate(plan.steps, 1))


def _headroom(seconds: float) -> str:
    if math.isnan(seconds):
        return "for a time that depends on what is written"
    return "without limit of time" if math.isinf(seconds) else f"for {age(seconds)} at least"
