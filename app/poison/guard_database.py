"""The database of the guard's tables: the target, or the one that `guard.url` names."""

from sqlalchemy import URL, Engine

from app.config.settings import Settings
from app.db.engine import make_engine
from app.poison.attempts import Attempts


def guard_engine(settings: Settings, application_name: str) -> Engine:
    return make_engine(*guard_database(settings), application_name)


def guard_database(settings: Settings) -> tuple[URL, str | None]:
    """URL, and the role that sessions set: only in the target `target.owner_role`; elsewhere the login acts."""
    if settings.guard.url is not None:
        return settings.guard.url, None
    return settings.target.url, settings.target.owner_role


def forget_suspects(settings: Settings, lane: str) -> None:
    """Delete the suspects and the attempt of a lane; committed when this returns."""
    attempts = Attempts(guard_engine(settings, "surelane recover"), settings.target.db_schema, lane)
    try:
        attempts.forget()
    finally:
        attempts.close()
