"""What a failed read of an exact span means."""

from collections.abc import Mapping

import pytest
from confluent_kafka import KafkaError, KafkaException

from app.config.settings import SourceSettings
from app.errors import LogTruncated, MessagesGone
from app.kafka.exact_reader import ExactReader
from app.model.offsets import Offsets, Span, TopicPartition

TP = TopicPartition("t", 0)


class Failing(ExactReader[object]):
    """Its client fails as librdkafka does where an offset is not in the log, which begins at `low`."""

    def __init__(self, low: int) -> None:
        super().__init__(SourceSettings(bootstrap_servers="127.0.0.1:9", topics=(TP.topic,)), lambda: False)
        self._first = low

    def close(self) -> None: ...

    def _assign(self, start: Offsets, terms: Mapping[TopicPartition, int]) -> None: ...

    def _read(self, span: Span) -> list[object]:
        raise KafkaException(KafkaError(KafkaError._AUTO_OFFSET_RESET, "out of range"))

    def _low(self, tp: TopicPartition) -> int:
        return self._first


@pytest.mark.parametrize(("low", "meaning"), [(10, MessagesGone), (0, LogTruncated)])
def test_an_offset_that_is_not_there(low: int, meaning: type[Exception]) -> None:
    """Deleted where the log begins behind it; else the log once ended before it."""
    with pytest.raises(meaning):
        Failing(low).read(Span.of(TP, 5, 7))
