"""Where the guard's own tables are: in the target, or in the database that `guard.url` names."""

from sqlalchemy import Engine

from app.config.settings import Settings
from app.db.engine import make_engine
from app.poison.attempts import Attempts


def guard_engine(settings: Settings, application_name: str) -> Engine:
    """Engine of the guard's database. `target.owner_role` is a role of the target: elsewhere the login acts itself."""
    if settings.guard.url is not None:
        return make_engine(settings.guard.url, application_name=application_name)
    return make_engine(settings.target.url, settings.target.owner_role, application_name)


def forget_suspects(settings: Settings, lane: str) -> None:
    """Delete what is suspected of a lane; committed when this returns."""
    attempts = Attempts(guard_engine(settings, "surelane recover"), settings.target.db_schema, lane)
    try:
        attempts.forget()
    finally:
        attempts.close()
