"""The interface of an epoch's participants in the two-phase protocol.

States of a participant's part of one epoch, and the legal steps:

    (nothing) --begin--> begun --pre_commit--> pre-committed --commit--> committed
                           |                        |
                           +---------abort----------+-----> (nothing)

Between `begin` and `pre_commit` each participant is written in its own way: the lane sends SQL on the target's
connection, the archive reads the span's messages. A pre-committed part survives the death of the process, is invisible,
and can be committed or aborted. Its name is the epoch's gid, by which `handles` finds it again.
"""

from dataclasses import dataclass
from typing import Protocol

from app.model.gid import Gid
from app.model.offsets import Span


@dataclass(frozen=True, kw_only=True)
class Work:
    """One epoch, for its participants."""

    gid: Gid
    #: the messages that the epoch consumes, also those that it does not apply
    span: Span


class Participant(Protocol):
    """A participant of one lane. Any thread may call `commit` and `abort`, more than once."""

    def begin(self, work: Work) -> None:
        """Begin an epoch; no earlier one is undecided."""
        ...

    def pre_commit(self) -> None:
        """Make the part durable: from now on it can be committed, even if this process dies."""
        ...

    def commit(self, gid: Gid) -> None:
        """Make the part visible, all at once. Idempotent. Raises Unreachable if that is not possible now, Diverged if
        it never will be."""
        ...

    def abort(self, gid: Gid) -> bool:
        """Remove the part; False if another session has ended it, in an unknown way. Raises Unreachable."""
        ...

    def handles(self) -> list[Gid]:
        """The parts that any process of this lane pre-committed and did not end; never those of another lane."""
        ...

    def close(self) -> None:
        """Release what this process holds, as its death would."""
        ...
