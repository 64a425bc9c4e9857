"""Writes the topic of `guard.dead_letter` one message at a time, so that none overtakes one that failed."""

from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from app.config.settings import DeadLetterSettings, SourceSettings
from app.errors import EnvironmentMissing, SurelaneError, Unreachable
from app.kafka.client import client_config
from app.kafka.producing import DEFAULTS, check_topic, make_producer
from app.model.message import RawMessage

#: a broker that is up answers in milliseconds; a restarting one needs a few seconds
REQUEST_TIMEOUT_SECONDS = 10.0
#: for one message; then it is tried again
SEND_TIMEOUT_SECONDS = 10.0
#: longer than the client's timeout: its report comes first
_FLUSH_SECONDS = SEND_TIMEOUT_SECONDS + 5.0
_OURS = {
    "acks": "all",
    "enable.idempotence": "true",
    "message.timeout.ms": str(int(SEND_TIMEOUT_SECONDS * 1000)),
}


class DeadLetterTopic:
    """Connection to the topic; use as a context manager or call `close`."""

    def __init__(self, source: SourceSettings, config: DeadLetterSettings) -> None:
        """Raises ConfigInvalid for options that the client does not know."""
        self.name = config.topic
        self._servers = source.bootstrap_servers
        self._config: dict[str, Any] = {**client_config(source), **DEFAULTS, "linger.ms": "0"}
        self._config |= {**config.options, **_OURS}
        self._complaint = ""
        self._producer: Producer | None = self._connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a message in flight may arrive or not."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(0)

    def check(self) -> None:
        """Raises EnvironmentMissing where the topic does not exist, or Unreachable."""
        create = "--partitions 1 --replication-factor 3 --bootstrap-server HOST:PORT (one partition keeps the order)"
        try:
            check_topic(self._connected(), self.name, "guard.dead_letter.topic", create, REQUEST_TIMEOUT_SECONDS)
        except KafkaException as error:
            raise self._unreachable(error.args[0].str()) from error

    def send(self, message: RawMessage) -> None:
        """Returns when Kafka has the message; its position is not used. When it raises, the message may have been sent
        all the same."""
        refused: list[KafkaError] = []

        def report(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                refused.append(error)

        producer = self._connected()
        try:
            producer.produce(
                self.name,
                key=message.key,
                value=message.value,
                headers=list(message.headers),
                timestamp=message.timestamp_ms or 0,  # 0: now
                on_delivery=report,
            )
            left = producer.flush(_FLUSH_SECONDS)
        except (KafkaException, BufferError) as error:
            self.close()
            raise self._refused(error.args[0]) from error
        if left or refused:
            self.close()  # a producer that has lost its sequence may refuse everything else
            raise self._refused(refused[0]) if refused else self._unreachable("no report in time")

    def _connect(self) -> Producer:
        return make_producer(self._config, "guard.dead_letter.options", self._complain)

    def _connected(self) -> Producer:
        if self._producer is None:
            self._producer = self._connect()
        return self._producer

    def _complain(self, error: KafkaError) -> None:
        self._complaint = error.str()

    def _refused(self, error: KafkaError | str) -> SurelaneError:
        if isinstance(error, str):
            return self._unreachable(error)
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return EnvironmentMissing(
                f"topic {self.name} does not take a message of this size: {error.str()}",
                hint=f"raise max.message.bytes of {self.name}: headers come on top of what the source's topic took",
            )
        return self._unreachable(error.str())

    def _unreachable(self, what: str) -> Unreachable:
        complaint = f" ({self._complaint})" if self._complaint else ""
        self._complaint = ""
        return Unreachable(
            f"topic {self.name} at {self._servers} was not written: {what}{complaint}",
            hint="is the broker up, and may this user write the topic (guard.dead_letter.options)?",
        )
