"""Writes batches of rows to a topic, each in one transaction of Kafka.

The number of a batch is committed in its transaction as an offset of the consumer group `<transactional id>` for
partition 0 of the topic: where this client does not know the outcome of a transaction, the next `open` reads it there.
`open` also ends what an earlier producer of the same id left: Kafka aborts it, and refuses that producer from then on.
"""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from app import failpoint
from app.config.settings import SourceSettings
from app.errors import EnvironmentMissing, SurelaneError, Unreachable
from app.kafka.client import client_config
from app.kafka.producing import DEFAULTS, check_topic, make_producer

#: longer than a broker takes to end the transaction of an earlier producer
REQUEST_TIMEOUT_SECONDS = 30.0
#: for a full queue of the client
_ROOM_SECONDS = 1.0
_DEFAULTS = {**DEFAULTS, "linger.ms": "5", "compression.type": "lz4"}
_LASTING = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)


class TransactionalTopic:
    """Connection to the topic. After any error `open` has to be called again."""

    def __init__(self, source: SourceSettings, topic: str, options: dict[str, str], identity: str) -> None:
        """`options`: of librdkafka's producer; `identity`: the transactional id, which one writer at a time has."""
        self.name = topic
        self._servers, self._identity = source.bootstrap_servers, identity
        self._client: dict[str, Any] = {**client_config(source), "log_level": 0}
        self._options = {**_DEFAULTS, **options, "transactional.id": identity}
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None

    @property
    def is_open(self) -> bool:
        return self._producer is not None

    def open(self) -> int:
        """End what an earlier producer left. Returns the number of the last batch that Kafka has, 0 for none. Raises
        ConfigInvalid, EnvironmentMissing where the topic does not exist, Unreachable."""
        self.close()
        own = {**self._client, "group.id": self._identity, "enable.auto.commit": "false"}
        own |= {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        producer = make_producer({**self._client, **self._options}, "queries: kafka.options", lambda _: None)
        create = "--partitions N --bootstrap-server HOST:PORT"
        try:
            check_topic(producer, self.name, "kafka.topic of a query", create, REQUEST_TIMEOUT_SECONDS)
            producer.init_transactions(REQUEST_TIMEOUT_SECONDS)
            self._consumer = Consumer({**own, "error_cb": lambda _: None})
            (found,) = self._consumer.committed([self._marker(0)], timeout=REQUEST_TIMEOUT_SECONDS)
        except KafkaException as error:
            self.close()
            raise self._failed(error.args[0]) from error
        if found.error is not None:
            self.close()
            raise self._failed(found.error)
        self._producer = producer
        return max(0, found.offset)

    def send(self, batch: int, rows: Iterable[tuple[str | None, str | None]]) -> int:
        """Send the batch. Returns the number of its rows when Kafka has all of them; when it raises, Kafka has all or
        none, and `open` says which. Rows: key and value."""
        producer, consumer = self._producer, self._consumer
        assert producer is not None, "it is open"
        assert consumer is not None, "it is open"
        sent = 0
        try:
            producer.begin_transaction()
            for key, value in rows:
                self._produce(producer, key, value)
                sent += 1
            producer.send_offsets_to_transaction(
                [self._marker(batch)], consumer.consumer_group_metadata(), REQUEST_TIMEOUT_SECONDS
            )
            failpoint.reach("topic-before-commit")
            producer.commit_transaction(REQUEST_TIMEOUT_SECONDS)
            failpoint.reach("topic-after-commit")
        except KafkaException as error:
            self.close()
            raise self._failed(error.args[0]) from error
        except BaseException:
            self.close()
            raise
        return sent

    def close(self) -> None:
        """Close the connection. Kafka aborts an unfinished transaction."""
        producer, self._producer = self._producer, None
        consumer, self._consumer = self._consumer, None
        if producer is not None:
            producer.purge()
            producer.flush(0)
        if consumer is not None:
            consumer.close()

    def _marker(self, batch: int) -> TopicPartition:
        return TopicPartition(self.name, 0, batch)

    def _produce(self, producer: Producer, key: str | None, value: str | None) -> None:
        while True:
            try:
                producer.produce(
                    self.name,
                    key=None if key is None else key.encode(),
                    value=None if value is None else value.encode(),
                )
            except BufferError:
                producer.poll(_ROOM_SECONDS)
            else:
                producer.poll(0)
                return

    def _failed(self, error: KafkaError) -> SurelaneError:
        doing = f"topic {self.name} at {self._servers} was not written: {error.str()}"
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return EnvironmentMissing(doing, hint=f"raise max.message.bytes of {self.name}, or make the rows smaller")
        if error.code() in _LASTING:
            return EnvironmentMissing(
                doing,
                hint=f"allow this user to write topic {self.name}, with transactional id and group {self._identity}",
            )
        return Unreachable(doing, hint="is the broker up? The rows wait in the target; they are sent again")
