"""The Kafka cluster as the driver asks it: identity, topics, watermarks, lag, single messages."""
