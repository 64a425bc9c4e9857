"""How far the target's standbys are behind, against `limits.target_replica_lag`.

The server's replay_lag is measured when a standby replays something, so it does not grow while one replays nothing. So
the lane notes when the WAL was at which position: a standby is as far behind as the oldest position that it has not
replayed is old. After a start the notes begin anew: a standby that replays nothing counts from then on.
"""

from collections import deque

from sqlalchemy import Connection

from app.db.standbys import Standby, replication

#: state of a lane that waits
WAITING = "waiting"
#: seconds between two notes, at least, and as a share of the limit
_NOTE_SECONDS, _NOTE_SHARE = 1.0, 0.001
#: notes that are kept: they reach back ten times the limit, or for hours
_NOTES = 10_000


class ReplicaLag:
    """Of all standbys of the target; `look` from one thread."""

    def __init__(self, limit_seconds: float) -> None:
        self._limit = limit_seconds
        #: when (monotonic), position in the WAL
        self._notes: deque[tuple[float, int]] = deque(maxlen=_NOTES)
        #: of the standby that is furthest behind; 0 without one
        self.seconds = 0.0
        #: what the lanes wait for; None: they may begin epochs
        self.waits_for: str | None = None

    def look(self, connection: Connection, now: float) -> None:
        """Read how far the standbys are. `now`: monotonic. Raises TargetMismatch for a role that may not see it."""
        found = replication(connection)
        self._note(now, found.written)
        behind = [(self._seconds(one, found.written, now), one.name) for one in found.standbys]
        self.seconds, name = max(behind, default=(0.0, ""))
        self.waits_for = None
        if self.seconds > self._limit:
            self.waits_for = f"standby {name}: it is more than {self._limit:g} s behind (limits.target_replica_lag)"

    def _note(self, now: float, written: int) -> None:
        every = max(_NOTE_SECONDS, self._limit * _NOTE_SHARE)
        if not self._notes or (self._notes[-1][1] < written and now - self._notes[-1][0] >= every):
            self._notes.append((now, written))

    def _seconds(self, standby: Standby, written: int, now: float) -> float:
        if standby.replayed >= written:
            return 0.0
        at = next((at for at, position in self._notes if position > standby.replayed), now)
        return max(now - at, standby.replay_seconds or 0.0)
