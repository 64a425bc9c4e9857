"""The source: the streaming query that cuts epochs."""
