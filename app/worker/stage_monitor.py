"""What the stage processes have in hand, brought to the metrics and to the target, where `surelane status` finds it."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog
from sqlalchemy import Engine

from app.db.sqlstate import translated
from app.errors import SurelaneError
from app.ledger.in_flight_rows import InFlightRows
from app.metrics.lane_metrics import LaneMetrics
from app.model.in_flight import InFlightView
from app.stage.pool import Pool
from app.worker.lane_writer import LaneWriter

log = structlog.get_logger()


class StageMonitor:
    """Used by the monitor's thread, on its connections."""

    def __init__(
        self,
        schema: str,
        writers: Mapping[str, LaneWriter],
        metrics: Mapping[str, LaneMetrics],
        pool: Pool,
        engine: Callable[[str], Engine],
    ) -> None:
        self._schema, self._writers, self._metrics, self._pool, self._engine = schema, writers, metrics, pool, engine
        #: by lane: what was written last, and of which generation
        self._written: dict[str, tuple[int, InFlightView]] = {}

    def look(self) -> None:
        """Raises Fenced where another writer has the lane."""
        whole = self._pool.in_flight()
        for writer in list(self._writers.values()):
            seen = self._of(whole, writer.name)
            self._metrics[writer.name].set_stage(
                seen, processes=whole.by_host, tasks=self._pool.tasks, limit=self._pool.ahead.limit
            )
            if self._written.get(writer.name) != (writer.generation, seen):
                self._write(writer, seen)

    def clear(self) -> None:
        """Nothing is in flight any more; where the target is away, its next start replaces the rows."""
        for writer in list(self._writers.values()):
            try:
                with translated(f"lane {writer.name}: monitoring"), self._engine(writer.name).begin() as connection:
                    InFlightRows(self._schema, writer.name).clear(connection, writer.generation)
            except SurelaneError as error:
                log.debug("monitor", because=error.message)
        self._written.clear()

    def _write(self, writer: LaneWriter, seen: InFlightView) -> None:
        with translated(f"lane {writer.name}: monitoring"), self._engine(writer.name).begin() as connection:
            writer.ledger.check_newest(connection, writer.generation)
            InFlightRows(self._schema, writer.name).replace(connection, writer.generation, seen)
        self._written[writer.name] = (writer.generation, seen)

    def _of(self, whole: InFlightView, lane: str) -> InFlightView:
        """Its own spans; the first lane has those, too, that are read for all of them. A process that works for another
        lane is that one's."""
        is_first = lane == min(self._writers)
        own = [one for one in whole.spans if one.lane == lane or (is_first and one.lane not in self._writers)]
        busy = {one.process for one in whole.spans if one not in own} - {one.process for one in own}
        others = busy - set(whole.idle)
        return replace(whole, spans=tuple(own), processes=tuple(one for one in whole.processes if one not in others))
