"""The verdict on a prepared transaction, and its reason in words.

`app.protocol.start_table.ending` decides, as at a start. A command, unlike a start, may not know which checkpoint is
the lane's. Then the verdict is UNSURE: a missing entry is not taken for a decision.
"""

import enum

from app.model.gid import Gid
from app.protocol.start_table import PreparedOutcome, ending
from app.recover.in_doubt_evidence import InDoubtEvidence


class OperatorAnswer(enum.StrEnum):
    """An answer to a prepared transaction."""

    COMMIT = "commit"
    ROLLBACK = "rollback"


class InDoubtVerdict(enum.StrEnum):
    """The case that a prepared transaction is, by the evidence."""

    COMMIT = "commit"  #: its epoch was decided
    ROLLBACK = "rollback"  #: its epoch was not decided, Spark replays it
    ORPHAN = "orphan"  #: it belongs to a checkpoint that the lane does not run on any more: it stays undecided
    UNSURE = "unsure"  #: the checkpoint that decides cannot be seen from here
    IN_PROGRESS = "in progress"  #: its lane runs and ends it
    FOREIGN = "foreign"  #: it belongs to no lane of this configuration


_OF_ENDING = {
    PreparedOutcome.COMMIT: InDoubtVerdict.COMMIT,
    PreparedOutcome.ROLL_BACK: InDoubtVerdict.ROLLBACK,
    PreparedOutcome.ORPHAN: InDoubtVerdict.ORPHAN,
}
#: the answer that agrees with the evidence
RIGHT = {
    InDoubtVerdict.COMMIT: OperatorAnswer.COMMIT,
    InDoubtVerdict.ROLLBACK: OperatorAnswer.ROLLBACK,
    InDoubtVerdict.ORPHAN: OperatorAnswer.ROLLBACK,
}
PAST = {OperatorAnswer.COMMIT: "committed", OperatorAnswer.ROLLBACK: "rolled back"}


def judge(gid: Gid, seen: InDoubtEvidence) -> InDoubtVerdict:
    if seen.holder is not None:
        return InDoubtVerdict.IN_PROGRESS
    if seen.checkpoint is None or _stranger(seen) or _too_old(gid, seen):
        return InDoubtVerdict.UNSURE
    known = {} if seen.of_generation is None else {gid.generation: seen.of_generation}
    return _OF_ENDING[ending(gid, known, seen.checkpoint, bool(seen.complete))]


def why(gid: Gid, seen: InDoubtEvidence, verdict: InDoubtVerdict) -> str:
    where = f"the {'copy' if seen.copy else 'checkpoint'} {seen.location}"
    match verdict:
        case InDoubtVerdict.IN_PROGRESS:
            return f"lane {gid.lane} runs: backend {seen.holder} holds its lock, and the lane ends the epoch itself"
        case InDoubtVerdict.COMMIT:
            return f"epoch {gid.epoch} was decided: commits/{gid.epoch} exists in {where}. Spark does not read it again"
        case InDoubtVerdict.ROLLBACK:
            copy = ". A copy shows that only if it was made after the lane had ended" if seen.copy else ""
            entry = f"offsets/{gid.epoch} exists in {where}, commits/{gid.epoch} does not"
            return f"epoch {gid.epoch} was not decided: {entry}. Spark replays it with the same offsets{copy}"
        case InDoubtVerdict.ORPHAN:
            ran = f"ran on checkpoint {seen.of_generation}" if seen.of_generation else "is not known to the target"
            now = f"the lane's is {seen.checkpoint} now"
            return f"generation {gid.generation} {ran}, {now}: no process decides it any more"
        case InDoubtVerdict.UNSURE:
            return _unsure(gid, seen, where)
        case InDoubtVerdict.FOREIGN:
            return foreign(gid)


def foreign(gid: Gid | None) -> str:
    """Why a transaction is foreign."""
    if gid is None:
        return "its name is none that Surelane gives: another program prepared it, and that one decides"
    return f"it belongs to lane {gid.lane}, which is not of this configuration"


def what_next(gid: Gid | None, verdict: InDoubtVerdict) -> str:
    """What an operator should do."""
    match verdict:
        case InDoubtVerdict.IN_PROGRESS:
            return (
                "wait. If the lane's machine is gone and only its session is left, `surelane run` elsewhere takes over"
            )
        case InDoubtVerdict.COMMIT | InDoubtVerdict.ROLLBACK | InDoubtVerdict.ORPHAN:
            by_hand = f"surelane indoubt {RIGHT[verdict]} {gid}"
            return f"start the lane, which does it: surelane run. If it cannot start: {by_hand}"
        case InDoubtVerdict.UNSURE:
            return (
                "start the lane where its checkpoint is: surelane run; or read a copy of it: --checkpoint PATH. If it "
                "is lost for good, start the lane as well: it rolls this back and resumes from the ledger"
            )
        case InDoubtVerdict.FOREIGN:
            return "leave it to whom it belongs to"


def consequence(answer: OperatorAnswer, verdict: InDoubtVerdict) -> str:
    match answer, verdict:
        case OperatorAnswer.ROLLBACK, InDoubtVerdict.COMMIT:
            return (
                "rolled back, its messages are missing in the target: the next start stops with status 6, and they "
                "come back by `surelane recover --from-ledger`, as long as Kafka has them"
            )
        case OperatorAnswer.COMMIT, InDoubtVerdict.ROLLBACK:
            return "committed, the target is ahead of the checkpoint: the next start skips what it has already"
        case OperatorAnswer.COMMIT, InDoubtVerdict.ORPHAN:
            return "committed, its changes come after whatever the lane has applied since: rows may go back"
        case _, InDoubtVerdict.UNSURE:
            return "the wrong answer loses the epoch's messages until they are replayed, or keeps them ahead of time"
        case _:
            return "the program that prepared it relies on deciding it"


def _stranger(seen: InDoubtEvidence) -> bool:
    """Whether the checkpoint is neither the lane's last one nor the transaction's (another machine's, perhaps)."""
    return seen.checkpoint not in (seen.of_generation, seen.current)


def _too_old(gid: Gid, seen: InDoubtEvidence) -> bool:
    """Whether the checkpoint was copied before the transaction was prepared: its missing entries then mean nothing."""
    if seen.checkpoint != seen.of_generation or seen.complete:
        return False
    return not seen.planned or (seen.newest_generation or 0) < gid.generation


def _unsure(gid: Gid, seen: InDoubtEvidence, where: str) -> str:
    if seen.checkpoint is None:
        return f"{where} decides, and cannot be seen from here: {seen.trouble}"
    if _stranger(seen):
        return f"{where} is {seen.checkpoint}; the lane ran on {seen.current or 'another one'}, which is not to be seen"
    return (
        f"{where} is older than the transaction: it knows nothing of epoch {gid.epoch} of generation {gid.generation}"
    )
