"""Whoever takes part in an epoch: what the two-phase protocol asks of it.

States of what a participant has of one epoch, and the legal steps:

    (nothing) --begin--> begun --pre_commit--> pre-committed --commit--> committed
                           |                        |
                           +---------abort----------+-----> (nothing)

What is written between `begin` and `pre_commit` is the participant's own affair: the lane writes SQL on the target's
connection, the archive reads the span's messages. What is pre-committed survives the death of the process, is seen by
nobody, and can be ended either way; its name is the epoch's gid, by which `handles` finds it again.
"""

from dataclasses import dataclass
from typing import Protocol

from app.model.gid import Gid
from app.model.offsets import Span


@dataclass(frozen=True, kw_only=True)
class Work:
    """What an epoch is, for those who take part in it."""

    gid: Gid
    #: what it applies: every message of it, whatever becomes of it
    span: Span


class Participant(Protocol):
    """One of them, of one lane. `commit` and `abort` may be called from any thread and more than once."""

    def begin(self, work: Work) -> None:
        """The epoch begins; nothing of an earlier one is undecided."""
        ...

    def pre_commit(self) -> None:
        """Everything that was begun is durable; from here on it can be committed, whatever happens to this process."""
        ...

    def commit(self, gid: Gid) -> None:
        """Make it visible, all at once. Done before, it is done: raises only when it cannot be done now (Unreachable)
        or can never be (Diverged)."""
        ...

    def abort(self, gid: Gid) -> bool:
        """Leave nothing of it; False when it was ended by somebody else, nobody here knows how. Raises Unreachable."""
        ...

    def handles(self) -> list[Gid]:
        """What this lane pre-committed and did not end, in whatever process; never anything of another lane."""
        ...

    def close(self) -> None:
        """Give up what this process holds, as its death would."""
        ...
