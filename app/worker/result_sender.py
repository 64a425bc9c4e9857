"""Sends the rows of a query from its outbox to Kafka, in a thread beside the query, with its own connections.

committed in the target -> sent, one transaction of Kafka for each batch -> deleted from the outbox
                              |                                              |
                              +-- failed: opened again; Kafka says           +-- crash before: the next start asks
                                  whether it has the batch                       Kafka, and deletes it
"""

import threading
import time

import structlog

from app.db.sqlstate import translated
from app.errors import SurelaneError
from app.kafka.transactional_topic import TransactionalTopic
from app.metrics.lane_metrics import LaneMetrics
from app.query.result_outbox import ResultOutbox
from app.worker.lane_writer import LaneWriter

log = structlog.get_logger()

#: seconds between two looks, where nothing is noticed
_ROUND_SECONDS = 1.0
#: longest pause after a failure; pauses double up to it
_LONGEST_PAUSE_SECONDS = 30.0
#: seconds of sending after the query has stopped; the next start sends the rest
_STOP_SECONDS = 30.0


class ResultSender:
    """The sending thread of one query; `topic` is open."""

    def __init__(
        self, writer: LaneWriter, outbox: ResultOutbox, topic: TransactionalTopic, metrics: LaneMetrics
    ) -> None:
        self._writer, self._outbox, self._topic, self._metrics = writer, outbox, topic, metrics
        self._wanted, self._stopping = threading.Event(), False
        self._deadline = float("inf")
        self._pause = _ROUND_SECONDS
        self._thread = threading.Thread(target=self._run, name="rows for Kafka", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def notice(self) -> None:
        """A batch may have been committed."""
        self._wanted.set()

    def stop(self) -> None:
        """Send what is left, unless sending fails; stop the thread."""
        self._deadline = time.monotonic() + _STOP_SECONDS
        self._stopping = True
        self._wanted.set()
        self._thread.join()
        self._topic.close()

    def _run(self) -> None:
        works = self._round()
        while not self._stopping:
            if works:
                self._wanted.wait(_ROUND_SECONDS)
                self._wanted.clear()
            else:
                self._sleep()
            works = self._round()
        if works:
            self._round()

    def _sleep(self) -> None:
        """Pause after a failure, whatever is committed meanwhile."""
        until = time.monotonic() + self._pause
        while not self._stopping and (left := until - time.monotonic()) > 0:
            self._wanted.clear()
            self._wanted.wait(left)

    def _round(self) -> bool:
        """Send all that waits. Whether that succeeded."""
        try:
            self._send_all()
        except Exception as error:  # noqa: BLE001  # the thread continues after any error: only it sends
            self._pause = min(_LONGEST_PAUSE_SECONDS, self._pause * 2)
            known = isinstance(error, SurelaneError)
            log.warning(
                "rows wait for Kafka",
                lane=self._writer.name,
                because=error.message if known else repr(error),
                what_to_do=error.hint if known else "please report it: a bug",
                again_in_seconds=self._pause,
            )
            return False
        self._pause = _ROUND_SECONDS
        return True

    def _send_all(self) -> None:
        doing = f"lane {self._writer.name}: sending rows"
        while True:
            known = None if self._topic.is_open else self._topic.open()
            with translated(doing), self._writer.engine.begin() as connection:
                self._writer.ledger.check_newest(connection, self._writer.generation)
                if known is not None:
                    self._outbox.forget(connection, known)
                batch = self._outbox.oldest(connection)
                self._metrics.set_query_unsent(self._outbox.batches(connection))
            if batch is None or time.monotonic() > self._deadline:
                return
            try:
                with translated(doing), self._writer.engine.begin() as connection:
                    sent = self._topic.send(batch, self._outbox.rows(connection, batch))
                with translated(doing), self._writer.engine.begin() as connection:
                    self._outbox.forget(connection, batch)
            except BaseException:
                self._topic.close()  # Kafka may have the batch that is still in the outbox: `open` asks it
                raise
            log.info("rows sent", lane=self._writer.name, batch=batch, rows=sent, topic=self._topic.name)
