"""Where a replay goes, and the settings of its lane there."""

from dataclasses import dataclass

from pydantic_core import PydanticCustomError
from sqlalchemy import Engine
from sqlalchemy.engine import URL

from app.config.settings import BreakerSettings, Commit, Delivery, Settings
from app.config.values import MAX_NAME_BYTES, postgres_url, schema_name
from app.db.engine import make_engine
from app.verify.positions import OWN

#: application_name of its sessions
NAME = "surelane replay"

#: schema, table
Name = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class RebuildPlace:
    """A schema of the target's database, or another database."""

    #: settings of the lane that is replayed
    settings: Settings
    #: None: the tables keep their schemas, in another database
    schema: str | None
    #: URL of the replay's database
    url: URL

    @classmethod
    def parse(cls, settings: Settings, into: str) -> "RebuildPlace":
        """From the text of `--into`; raises a ValueError whose text has no password."""
        try:
            if "://" in into:
                return cls(settings=settings, schema=None, url=postgres_url(into))
            found = cls(settings=settings, schema=schema_name(into), url=settings.target.url)
        except PydanticCustomError as error:
            raise ValueError(error.message()) from None
        if "*" in into or "." in into or len(found.own.encode()) > MAX_NAME_BYTES:
            raise ValueError("a schema's name without * and ., not too long to put _replay behind it; or postgresql://")
        return found

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is another database than the target's."""
        return self.schema is None

    @property
    def own(self) -> str:
        """The schema of the replay's own ledger, guard and quarantine."""
        return f"{self.schema or self.settings.target.db_schema}{OWN}"

    @property
    def owner_role(self) -> str | None:
        """The target's owner role; None in another database, which may not have that role."""
        return None if self.is_elsewhere else self.settings.target.owner_role

    @property
    def shown(self) -> str:
        """Schema, or URL without its password."""
        return self.schema or self.url.set(password=None).render_as_string()

    def engine(self) -> Engine:
        """An engine for the replay's database."""
        return make_engine(self.url, self.owner_role, NAME)

    def target(self) -> Engine:
        """An engine for the lane's target."""
        return make_engine(self.settings.target.url, self.settings.target.owner_role, NAME)

    def name_of(self, name: Name) -> Name:
        """Name in the replay of a table of the target."""
        return name if self.schema is None else (self.schema, name[1])

    def replaying(self, known_skips: int) -> Settings:
        """The settings of the replay's lane: the lane's own, but at this place, with another ledger, committing in one
        phase, without dead letters and archive. Its breaker allows the `known_skips` messages that the lane skipped."""
        original, guard = self.settings.target, self.settings.guard
        breaker = guard.breaker
        if breaker is not None:
            breaker = BreakerSettings(messages=breaker.messages + known_skips, minutes=breaker.minutes)
        target = {"url": self.url, "owner_role": self.owner_role, "db_schema": self.own}
        if self.schema is not None:
            original = original.in_schema(self.schema)
        return self.settings.model_copy(
            update={
                "target": original.model_copy(update=target),
                "guard": guard.model_copy(update={"url": None, "dead_letter": None, "breaker": breaker}),
                "archive": None,
                "delivery": Delivery.EXACTLY_ONCE,
                "commit": Commit.LEDGER,
            }
        )
