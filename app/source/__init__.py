"""The source: Kafka's metadata, and the streaming query that cuts epochs."""
