"""Clients of the Kafka cluster: metadata and single messages, exact spans, lag, the dead-letter topic, security.

Exact spans are read in two ways (`exact_reader` is what they share): `spans` with an object for each message, of any
number of partitions; `block_reader` in blocks of bytes (`packed_bytes`), of one partition, for a backlog.
"""
