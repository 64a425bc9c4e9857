"""Sending dead letters: a thread beside the lanes, with connections of its own, that no lane ever waits for.

    unsent -> sent to the topic, one after the other -> marked
                 |                                        |
                 +-- not taken: again after a pause       +-- died before: sent twice

What is wrong with the topic is logged and counted, and changes nothing for the lanes: the quarantine is the truth.
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

#: seconds between two looks
ROUND_SECONDS = 1.0
#: the longest pause after a failure, to which pauses double
LONGEST_PAUSE_SECONDS = 60.0
#: entries that are in memory, and sent between two marks
LETTERS_AT_ONCE = 20
#: seconds that may be spent on sending when the lanes stop; the rest is for the next start
STOP_SECONDS = 10.0


class DeadLetterSender:
    """The thread. Each attempt at running the lanes has its own."""

    def __init__(
        self,
        settings: Settings,
        told: DeadLetterSettings,
        writers: Mapping[str, LaneWriter],
        metrics: Mapping[str, LaneMetrics],
    ) -> None:
        """Raises ConfigInvalid."""
        self._schema, self._redaction = settings.target.db_schema, Redaction(settings.guard.redact)
        self._writers, self._metrics = writers, metrics
        self._topic = DeadLetterTopic(settings.source, told)
        #: by lane: sent and not marked
        self._sent: defaultdict[str, set[int]] = defaultdict(set)
        #: for a log line: the one that was tried last
        self._entry: int | None = None
        self._pause = ROUND_SECONDS
        self._stop = threading.Event()
        self._deadline = float("inf")
        self._thread = threading.Thread(target=self._run, name="dead letters", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Send what the last epoch has left, unless sending does not work anyway; stop the thread."""
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
        """Whether it went well for every lane."""
        failed = [writer.name for writer in list(self._writers.values()) if not self._try(writer)]
        self._pause = self._next_pause() if failed else ROUND_SECONDS
        return not failed

    def _next_pause(self) -> float:
        return min(LONGEST_PAUSE_SECONDS, self._pause * 2)

    def _try(self, writer: LaneWriter) -> bool:
        self._entry = None
        try:
            self._lane(writer)
        except Exception as error:  # noqa: BLE001  # whatever it is, the thread goes on: nobody else sends
            self._metrics[writer.name].dead_letter_failed()
            known = isinstance(error, SurelaneError)
            said = {
                "because": error.message if known else repr(error),
                "what_to_do": error.hint if known else "please report it: a bug",
                "entry": self._entry,
            }
            log.warning("dead letters wait", lane=writer.name, again_in_seconds=self._next_pause(), **said)
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
        """What cannot be marked now is marked in another round."""
        sent = self._sent[writer.name]
        if sent:
            with translated(f"lane {writer.name}: dead letters"), writer.engine.begin() as connection:
                marked = outbox.mark(connection, sent)
            sent -= marked
            if marked:
                log.info("dead letters sent", lane=writer.name, messages=len(marked), topic=self._topic.name)
