"""What librdkafka's error codes mean."""

from confluent_kafka import KafkaError

from app.errors import Unreachable

#: codes for an offset that is not in the log, or not any more
GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
#: code for a log that ended, in the leader epoch that was read last, before the position read to (KIP-320)
TRUNCATED = KafkaError._LOG_TRUNCATION
#: codes of an election: a partition without a leader, with another one than the client knows, or with another leader
#: epoch, and what a client answers that has dropped its connections for it
ELECTED = (
    KafkaError._NOENT,  # none of the requested partitions has a leader just now
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError._TRANSPORT,  # a broker that the metadata lacks is dropped with its connections
    KafkaError._DESTROY_BROKER,
)


class Complaint:
    """librdkafka's last error, for the error message.

    A separate object: if the client's owner had the callback, owner and client would be a cycle, freed by the thread in
    which the garbage collector happens to run. In a thread of librdkafka that ends the process.
    """

    def __init__(self) -> None:
        self.text = ""

    def note(self, error: KafkaError) -> None:
        """For `error_cb`. That all brokers are down follows each one's error, and has no reason of its own."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self.text:
            self.text = error.str()


def unreachable(servers: str, what: str, complaint: str) -> Unreachable:
    """The error for a missing answer; `complaint`: librdkafka's last error, "" for none."""
    detail = f" ({complaint})" if complaint else ""
    return Unreachable(
        f"Kafka at {servers} does not answer: {what}{detail}",
        hint="is the broker up, the address right, and security set as the broker wants it (source.security)?",
    )
