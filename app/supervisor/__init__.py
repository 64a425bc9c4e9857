"""The supervisor: keeps the worker process alive, and starts it again by a strategy."""
