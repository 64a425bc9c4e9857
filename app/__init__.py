"""Surelane: applies Debezium change events from Kafka to Postgres, in order, exactly once or at least once."""
