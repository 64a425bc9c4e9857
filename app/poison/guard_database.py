"""The database of the guard's tables: the target, or the one that `guard.url` names."""

from sqlalchemy import Engine

from app.config.settings import Settings
from app.db.engine import make_engine
from app.poison.attempts import Attempts


def guard_engine(settings: Settings, application_name: str) -> Engine:
    """Engine of the guard's database. Only in the target does it set `target.owner_role`; elsewhere the login acts."""
    if settings.guard.url is not None:
        return make_engine(settings.guard.url, application_name=application_name)
    return make_engine(settings.target.url, settings.target.owner_role, application_name)


def forget_suspects(settings: Settings, lane: str) -> None:
    """Delete the suspects and the attempt of a lane; committed when this returns."""
    attempts = Attempts(guard_engine(settings, "surelane recover"), settings.target.db_schema, lane)
    try:
        attempts.forget()
    finally:
        attempts.close()
