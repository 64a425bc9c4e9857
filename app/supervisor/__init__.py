"""The supervisor: runs the worker process, and restarts it by a restart strategy."""
