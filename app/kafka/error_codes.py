"""What librdkafka's errors mean, for whoever asks it."""

from confluent_kafka import KafkaError

from app.errors import Unreachable

#: codes for an offset that is not in the log, or not any more
GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
#: code for a log that ended, in the term of what was read last, before where it was read to (KIP-320)
TRUNCATED = KafkaError._LOG_TRUNCATION
#: codes for a partition without a leader, with another one than the client knows, or with the same for another term
ELECTED = (
    KafkaError._NOENT,  # none of the partitions asked for has a leader just now
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
)


class Complaint:
    """What librdkafka last complained of, for the error message.

    An object of its own: were it the owner of the client that is called back, owner and client would be a cycle, freed
    by whichever thread the garbage collector happens to run in. In one of librdkafka's own that is the process' end.
    """

    def __init__(self) -> None:
        self.text = ""

    def note(self, error: KafkaError) -> None:
        """For `error_cb`."""
        self.text = error.str()


def unreachable(servers: str, what: str, complaint: str) -> Unreachable:
    """No answer; `complaint`: what librdkafka said of it last, "" for nothing."""
    said = f" ({complaint})" if complaint else ""
    return Unreachable(
        f"Kafka at {servers} does not answer: {what}{said}",
        hint="is the broker up, the address right, and security set as the broker wants it (source.security)?",
    )
