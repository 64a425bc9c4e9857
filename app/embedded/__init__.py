"""The local stack of the demo, the tests and the bench: Kafka, Debezium, two Postgres servers; no containers."""

from app.embedded.connect import Connect
from app.embedded.kafka import Kafka
from app.embedded.postgres import Postgres
from app.embedded.stack import Endpoints, Stack

__all__ = ["Connect", "Endpoints", "Kafka", "Postgres", "Stack"]
