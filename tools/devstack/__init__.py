"""The local stack for demo, tests and benchmarks: Kafka, Debezium, two Postgres servers; no containers."""

from tools.devstack.connect import Connect
from tools.devstack.kafka import Kafka
from tools.devstack.postgres import Postgres
from tools.devstack.stack import Endpoints, Stack

__all__ = ["Connect", "Endpoints", "Kafka", "Postgres", "Stack"]
