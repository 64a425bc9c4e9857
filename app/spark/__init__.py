"""The Spark side: the session, and its checkpoint, read through Spark's own file systems or without Spark."""
