"""Alembic migrations of the `surelane` schema in the target database; forward only."""
