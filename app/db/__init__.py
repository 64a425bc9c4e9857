"""Postgres: engines, the lane's lock, prepared transactions, what an SQLSTATE means."""
