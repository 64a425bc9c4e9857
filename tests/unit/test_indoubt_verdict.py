"""The verdict on a prepared transaction: the start's own where the evidence is there, and none where it is not."""

import itertools

import pytest

from app.cli.rendering import age
from app.model.gid import Gid
from app.protocol.start_table import PreparedOutcome, ending
from app.recover.in_doubt_evidence import InDoubtEvidence
from app.recover.verdict import RIGHT, InDoubtVerdict, OperatorAnswer, consequence, judge, what_next, why

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
) -> InDoubtEvidence:
    return InDoubtEvidence(
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
    "decided": (seen(complete=True), InDoubtVerdict.COMMIT),
    "not decided": (seen(), InDoubtVerdict.ROLLBACK),
    "of another checkpoint": (seen(of_generation="older"), InDoubtVerdict.ORPHAN),
    "of an unclaimed generation": (seen(of_generation=None), InDoubtVerdict.ORPHAN),
    "the lane runs": (seen(holder=7, complete=True), InDoubtVerdict.IN_PROGRESS),
    "no checkpoint here": (seen(checkpoint=None, planned=None, complete=None), InDoubtVerdict.UNSURE),
    "another machine's checkpoint": (seen(checkpoint="stranger", planned=None), InDoubtVerdict.UNSURE),
    "an older copy, by its entries": (seen(planned=False), InDoubtVerdict.UNSURE),
    "an older copy, by its generation": (seen(newest_generation=2), InDoubtVerdict.UNSURE),
    "a copy that is old, and knows the decision": (seen(newest_generation=2, complete=True), InDoubtVerdict.COMMIT),
    "its own checkpoint, which the lane has left": (seen(current="newer", complete=True), InDoubtVerdict.COMMIT),
}


@pytest.mark.parametrize(("evidence", "verdict"), CASES.values(), ids=list(CASES))
def test_verdicts(evidence: InDoubtEvidence, verdict: InDoubtVerdict) -> None:
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
        if verdict is InDoubtVerdict.UNSURE:
            continue
        asked += 1
        known = {} if of is None else {GID.generation: of}
        does = (
            OperatorAnswer.COMMIT
            if ending(GID, known, checkpoint, complete) is PreparedOutcome.COMMIT
            else OperatorAnswer.ROLLBACK
        )
        assert RIGHT[verdict] is does
    assert asked > 10


def test_each_wrong_answer_names_its_consequence() -> None:
    wrong = [
        (a, v)
        for a in OperatorAnswer
        for v in InDoubtVerdict
        if RIGHT.get(v) is not a and v is not InDoubtVerdict.IN_PROGRESS
    ]
    assert len({consequence(answer, verdict) for answer, verdict in wrong}) == 5
    assert "status 6" in consequence(OperatorAnswer.ROLLBACK, InDoubtVerdict.COMMIT)


def test_a_copy_warns_that_it_may_be_too_old() -> None:
    assert "after the lane had ended" in why(GID, seen(copy=True), InDoubtVerdict.ROLLBACK)
    assert "after the lane had ended" not in why(GID, seen(), InDoubtVerdict.ROLLBACK)


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
