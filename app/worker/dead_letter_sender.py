"""Sends dead letters in a thread beside the lanes, with its own connections; no lane waits for it.

    unsent -> sent to the topic, one after the other -> marked
                 |                                        |
                 +-- refused: again after a pause         +-- crash before: sent twice

Failures of the topic are logged and counted, and do not affect the lanes: the quarantine is the record.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

import structlog

from app.config.redaction import Redaction
from app.config.settings import DeadLetterSettings, Settings
from app.db.sqlstate import translated
from app.errors import SurelaneError
from app.kafka.dead_letter_producer import DeadLetterTopic
from app.metrics.lane_metrics import LaneMetrics
from app.quarantine.dead_letter import Letter, Outbox
from app.worker.lane_writer import LaneWriter

log = structlog.get_logger()

#: seconds between two rounds
ROUND_SECONDS = 1.0
#: longest pause after a failure; pauses double up to it
LONGEST_PAUSE_SECONDS = 60.0
#: entries that are in memory at a time, and sent before they are marked
LETTERS_AT_ONCE = 20
#: seconds of sending after the lanes stop; the next start sends the rest
STOP_SECONDS = 10.0


class DeadLetterSender:
    """The sending thread; each StreamingRun has its own."""

    def __init__(
        self,
        settings: Settings,
        config: DeadLetterSettings,
        writers: Mapping[str, LaneWriter],
        metrics: Mapping[str, LaneMetrics],
    ) -> None:
        """Raises ConfigInvalid."""
        self._schema, self._redaction = settings.target.db_schema, Redaction(settings.guard.redact)
        self._writers, self._metrics = writers, metrics
        self._topic = DeadLetterTopic(settings.source, config)
        #: by lane: ids of entries that are sent and not marked
        self._sent: defaultdict[str, set[int]] = defaultdict(set)
        #: id of the last entry that was tried, for a log line
        self._entry: int | None = None
        self._pause = ROUND_SECONDS
        self._stop = threading.Event()
        self._deadline = float("inf")
        self._thread = threading.Thread(target=self._run, name="dead letters", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send the entries of the last epoch, unless sending fails; stop the thread."""
        self._deadline = time.monotonic() + STOP_SECONDS
        self._stop.set()
        self._thread.join()
        self._topic.close()

    def _run(self) -> None:
        works = self._round()
        while not self._stop.wait(self._pause):
            works = self._round()
        if works:
            self._round()

    def _round(self) -> bool:
        """Whether sending succeeded for every lane."""
        failed = [writer.name for writer in list(self._writers.values()) if not self._try(writer)]
        self._pause = self._next_pause() if failed else ROUND_SECONDS
        return not failed

    def _next_pause(self) -> float:
        return min(LONGEST_PAUSE_SECONDS, self._pause * 2)

    def _try(self, writer: LaneWriter) -> bool:
        self._entry = None
        try:
            self._lane(writer)
        except Exception as error:  # noqa: BLE001  # the thread continues after any error: only it sends
            self._metrics[writer.name].dead_letter_failed()
            known = isinstance(error, SurelaneError)
            fields = {
                "because": error.message if known else repr(error),
                "what_to_do": error.hint if known else "please report it: a bug",
                "entry": self._entry,
            }
            log.warning("dead letters wait", lane=writer.name, again_in_seconds=self._next_pause(), **fields)
            return False
        return True

    def _lane(self, writer: LaneWriter) -> None:
        outbox = Outbox(self._schema, writer.name, self._redaction)
        while letters := self._take(writer, outbox):
            self._topic.check()
            try:
                self._send(writer, letters)
            finally:
                self._mark(writer, outbox)
            if time.monotonic() > self._deadline:
                return

    def _take(self, writer: LaneWriter, outbox: Outbox) -> list[Letter]:
        self._mark(writer, outbox)
        with translated(f"lane {writer.name}: dead letters"), writer.engine.begin() as connection:
            writer.ledger.check_newest(connection, writer.generation)
            sent = self._sent[writer.name]
            self._metrics[writer.name].set_dead_letters_waiting(outbox.count(connection) - len(sent))
            return outbox.unsent(connection, sent, LETTERS_AT_ONCE)

    def _send(self, writer: LaneWriter, letters: Sequence[Letter]) -> None:
        for letter in letters:
            self._entry = letter.id
            self._topic.send(letter.message)
            self._sent[writer.name].add(letter.id)
            self._metrics[writer.name].dead_letter_sent()
            if time.monotonic() > self._deadline:
                return

    def _mark(self, writer: LaneWriter, outbox: Outbox) -> None:
        """Mark sent entries; after a failure another round marks them."""
        sent = self._sent[writer.name]
        if sent:
            with translated(f"lane {writer.name}: dead letters"), writer.engine.begin() as connection:
                marked = outbox.mark(connection, sent)
            sent -= marked
            if marked:
                log.info("dead letters sent", lane=writer.name, messages=len(marked), topic=self._topic.name)
