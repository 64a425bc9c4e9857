"""Postgres: engines, the lane's lock, prepared transactions, verdicts by SQLSTATE."""
