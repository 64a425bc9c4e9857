"""The lanes that the console shows: one for each configuration, and the configurations that cannot be read."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from sqlalchemy import Engine

from app.cli.lane_status import Report, with_lag
from app.config.loader import load
from app.config.settings import Settings
from app.console.lag_reading import LagReading
from app.db.engine import make_engine
from app.errors import ConfigInvalid
from app.kafka.broker import Broker

#: seconds after which a connection to Kafka that no page uses is closed
BROKER_IDLE_SECONDS = 30.0
APPLICATION = "surelane console"


class ServedLane:
    """A lane, by its configuration. Its connections are opened when a page needs them."""

    def __init__(self, settings: Settings, file: Path | None, logs: Sequence[Path]) -> None:
        """`logs`: files that have the lane's log; lines of other lanes are skipped."""
        self.settings, self.file, self.logs = settings, file, tuple(logs)
        self.lag = LagReading(self._measure)
        self._lock = threading.Lock()
        self._broker: Broker | None = None
        self._users = 0
        self._used_at = 0.0

    @property
    def name(self) -> str:
        return self.settings.lane

    @property
    def schema(self) -> str:
        return self.settings.target.db_schema

    @property
    def several(self) -> bool:
        """Whether it is a lane for each partition."""
        return self.settings.source.is_by_partition

    @cached_property
    def engine(self) -> Engine:
        target = self.settings.target
        return make_engine(target.url, target.owner_role, APPLICATION)

    @contextmanager
    def broker(self) -> Iterator[Broker]:
        """The connection to Kafka, which several requests share."""
        with self._lock:
            if self._broker is None:
                self._broker = Broker(self.settings.source)
            self._users += 1
            broker = self._broker
        try:
            yield broker
        finally:
            with self._lock:
                self._users -= 1
                self._used_at = time.monotonic()

    def _measure(self, report: Report) -> Report:
        with self.broker() as broker:
            return with_lag(report, self.settings, broker)

    def close_idle(self, idle_seconds: float = BROKER_IDLE_SECONDS) -> None:
        """Close the connection to Kafka if no request has used it for so long."""
        with self._lock:
            unused = self._broker is not None and not self._users
            if not unused or time.monotonic() - self._used_at < idle_seconds:
                return
            broker, self._broker = self._broker, None
        if broker is not None:
            broker.close()


class ServedLanes:
    """All lanes of the console by name, and why others cannot be shown."""

    def __init__(self, lanes: Sequence[ServedLane], broken: Sequence[tuple[Path, str]] = ()) -> None:
        self._lanes = {one.name: one for one in lanes}
        #: file and fault
        self.broken = tuple(broken)

    def __iter__(self) -> Iterator[ServedLane]:
        return iter(self._lanes.values())

    def __len__(self) -> int:
        return len(self._lanes)

    def get(self, name: str) -> ServedLane | None:
        return self._lanes.get(name)

    def close_idle(self, idle_seconds: float = BROKER_IDLE_SECONDS) -> None:
        for one in self:
            one.close_idle(idle_seconds)


def read_lanes(files: Sequence[Path | None], folder: Path | None, logs: Sequence[Path]) -> ServedLanes:
    """The lanes of configurations, and of all `*.yaml` of a folder; None is the default configuration.

    Raises ConfigInvalid where no configuration can be read, or two are of one lane. Each query of a configuration is
    shown as a lane, too.
    """
    found: dict[str, ServedLane] = {}
    broken: list[tuple[Path, str]] = []
    every = [*files, *(sorted(folder.glob("*.yaml")) if folder is not None else ())]
    for file in every:
        try:
            settings = load(file)
        except ConfigInvalid as error:
            broken.append((file or Path("surelane.yaml"), str(error)))
            continue
        for one in (settings, *(settings.of_query(name) for name in settings.queries)):
            if one.lane in found:
                hint = "name each configuration once; variables of the environment (SURELANE_LANE) apply to all of them"
                raise ConfigInvalid(
                    f"two configurations are of lane {one.lane}: {found[one.lane].file}, {file}", hint=hint
                )
            found[one.lane] = ServedLane(one, file, logs)
    if not found:
        faults = "".join(f"\n{fault}" for _, fault in broken) or f"\nno *.yaml in {folder}"
        raise ConfigInvalid(
            f"there is no lane to show:{faults}", hint="name a configuration with --config, or a folder"
        )
    return ServedLanes(list(found.values()), broken)
