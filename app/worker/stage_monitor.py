"""Writes the spans in flight at stage processes to the metrics and to the target, for `surelane status`."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog
from sqlalchemy import Engine

from app.db.sqlstate import translated
from app.dispatch.pool import Pool
from app.errors import SurelaneError
from app.ledger.in_flight_rows import InFlightRows
from app.metrics.lane_metrics import LaneMetrics
from app.model.in_flight import InFlightView
from app.worker.lane_writer import LaneWriter

log = structlog.get_logger()


class StageMonitor:
    """The monitor's thread uses it, on the monitor's connections."""

    def __init__(
        self,
        schema: str,
        writers: Mapping[str, LaneWriter],
        metrics: Mapping[str, LaneMetrics],
        pool: Pool,
        engine: Callable[[str], Engine],
    ) -> None:
        self._schema, self._writers, self._metrics, self._pool, self._engine = schema, writers, metrics, pool, engine
        #: by lane: generation and view of the last write
        self._written: dict[str, tuple[int, InFlightView]] = {}

    def look(self) -> None:
        """Update metrics and rows. Raises Fenced where another writer has the lane."""
        whole = self._pool.in_flight()
        for writer in list(self._writers.values()):
            seen = self._of(whole, writer.name)
            self._metrics[writer.name].set_stage(
                seen, processes=whole.by_host, tasks=self._pool.tasks, limit=self._pool.ahead.limit
            )
            if self._written.get(writer.name) != (writer.generation, seen):
                self._write(writer, seen)

    def clear(self) -> None:
        """Delete the rows of all lanes; where the target is away, the next start replaces them."""
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
        """The spans of a lane; the first lane also gets those that are read for all lanes. A process that works for
        another lane is left out."""
        is_first = lane == min(self._writers)
        own = [one for one in whole.spans if one.lane == lane or (is_first and one.lane not in self._writers)]
        busy = {one.process for one in whole.spans if one not in own} - {one.process for one in own}
        others = busy - set(whole.idle)
        return replace(whole, spans=tuple(own), processes=tuple(one for one in whole.processes if one not in others))
