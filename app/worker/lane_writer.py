"""A lane's writer with the worker's additions: guard, quarantine and archive."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event

from app.archive.archive_participant import Archive
from app.db.sessions import Sessions
from app.poison.guard import Guard
from app.protocol.fencing import Writer
from app.protocol.participant import Participant
from app.quarantine.quarantine import Quarantine


@dataclass(kw_only=True)
class LaneWriter(Writer):
    guard: Guard
    quarantine: Quarantine
    #: set when an operator may have requested a release; see `app.quarantine.releases`
    release_wanted: Event = field(default_factory=Event)
    #: None: the lane archives nothing
    archive: Archive | None = None
    #: sessions of its own connections and of its guard's
    sessions: tuple[Sessions, ...] = ()

    @property
    def others(self) -> Sequence[Participant]:
        return () if self.archive is None else (self.archive,)

    def generation_elsewhere(self) -> int:
        return self.guard.newest_generation()

    def close(self) -> None:
        self.guard.close()
        super().close()
