"""The verdict on a prepared transaction: the start's own where the evidence is there, and none where it is not."""

import itertools

import pytest

from app.cli.indoubt_view import age
from app.model.gid import Gid
from app.recover.evidence import Evidence
from app.recover.start import Ending, ending
from app.recover.verdict import RIGHT, Answer, Verdict, consequence, judge, what_next, why

GID = Gid("orders", 3, 41)


def seen(
    *,
    holder: int | None = None,
    checkpoint: str | None = "mine",
    of_generation: str | None = "mine",
    current: str | None = "mine",
    planned: bool | None = True,
    complete: bool | None = False,
    newest_generation: int | None = 3,
    copy: bool = False,
) -> Evidence:
    return Evidence(
        holder=holder,
        location="/there",
        copy=copy,
        checkpoint=checkpoint,
        newest_generation=newest_generation,
        trouble=None if checkpoint else "there is none",
        of_generation=of_generation,
        current=current,
        planned=planned,
        complete=complete,
        ledger_row=False,
        span=None,
    )


CASES = {
    "decided": (seen(complete=True), Verdict.COMMIT),
    "not decided": (seen(), Verdict.ROLLBACK),
    "of another checkpoint": (seen(of_generation="older"), Verdict.ORPHAN),
    "of a generation that nobody claimed": (seen(of_generation=None), Verdict.ORPHAN),
    "the lane runs": (seen(holder=7, complete=True), Verdict.IN_PROGRESS),
    "no checkpoint here": (seen(checkpoint=None, planned=None, complete=None), Verdict.UNSURE),
    "another machine's checkpoint": (seen(checkpoint="stranger", planned=None), Verdict.UNSURE),
    "an older copy, by its entries": (seen(planned=False), Verdict.UNSURE),
    "an older copy, by its generation": (seen(newest_generation=2), Verdict.UNSURE),
    "a copy that is old, and knows the decision": (seen(newest_generation=2, complete=True), Verdict.COMMIT),
    "its own checkpoint, which the lane has left": (seen(current="newer", complete=True), Verdict.COMMIT),
}


@pytest.mark.parametrize(("evidence", "verdict"), CASES.values(), ids=list(CASES))
def test_verdicts(evidence: Evidence, verdict: Verdict) -> None:
    assert judge(GID, evidence) is verdict
    assert why(GID, evidence, verdict)
    assert what_next(GID, verdict)


def test_a_verdict_to_answer_is_what_the_start_would_do() -> None:
    """Over everything that may be seen of a lane that does not run."""
    ids, flags = (None, "mine", "other"), (True, False)
    asked = 0
    for checkpoint, of, current, planned, complete in itertools.product(ids, ids, ids, flags, flags):
        one = seen(checkpoint=checkpoint, of_generation=of, current=current, planned=planned, complete=complete)
        verdict = judge(GID, one)
        if verdict is Verdict.UNSURE:
            continue
        asked += 1
        known = {} if of is None else {GID.generation: of}
        does = Answer.COMMIT if ending(GID, known, checkpoint, complete) is Ending.COMMIT else Answer.ROLLBACK
        assert RIGHT[verdict] is does
    assert asked > 10


def test_what_a_wrong_answer_leads_to_is_said_for_each() -> None:
    wrong = [(a, v) for a in Answer for v in Verdict if RIGHT.get(v) is not a and v is not Verdict.IN_PROGRESS]
    assert len({consequence(answer, verdict) for answer, verdict in wrong}) == 5
    assert "status 6" in consequence(Answer.ROLLBACK, Verdict.COMMIT)


def test_a_copy_warns_that_it_may_be_too_old() -> None:
    assert "after the lane had ended" in why(GID, seen(copy=True), Verdict.ROLLBACK)
    assert "after the lane had ended" not in why(GID, seen(), Verdict.ROLLBACK)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.9, "0s"),
        (59.9, "59s"),
        (60, "1m00s"),
        (3_599, "59m59s"),
        (7_500, "2h05m"),
        (86_400, "1d00h"),
        (1e7, "115d17h"),
    ],
)
def test_ages(seconds: float, text: str) -> None:
    assert age(seconds) == text
