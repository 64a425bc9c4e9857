"""A lane's writer with the worker's additions: guard, quarantine, archive and files of rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event

from app.archive.archive_participant import Archive
from app.db.sessions import Sessions
from app.poison.guard import Guard
from app.protocol.fencing import Writer
from app.protocol.participant import Participant
from app.quarantine.quarantine import Quarantine
from app.query.result_files import ResultFiles


@dataclass(kw_only=True)
class LaneWriter(Writer):
    guard: Guard
    quarantine: Quarantine
    #: set when an operator may have requested a release; see `app.quarantine.releases`
    release_wanted: Event = field(default_factory=Event)
    #: None: the lane archives nothing
    archive: Archive | None = None
    #: files of a query's rows; None: its rows go elsewhere
    files: ResultFiles | None = None
    #: sessions of its own connections and of its guard's
    sessions: tuple[Sessions, ...] = ()

    @property
    def others(self) -> Sequence[Participant]:
        return tuple(one for one in (self.archive, self.files) if one is not None)

    def generation_elsewhere(self) -> int:
        return self.guard.newest_generation()

    def close(self) -> None:
        try:
            self.guard.close()
        finally:
            super().close()
