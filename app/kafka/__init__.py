"""Clients of the Kafka cluster: metadata and single messages, exact spans, lag, the dead-letter topic, security."""
