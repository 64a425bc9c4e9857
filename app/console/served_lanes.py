"""The lanes that the console shows: one for each configuration, and the configurations that cannot be read."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import structlog
from sqlalchemy import Connection, Engine

from app.cli.lane_status import Report, with_lag
from app.config.loader import DEFAULT_FILE, load
from app.config.settings import Settings
from app.console.epoch_log import EpochLog
from app.console.kept_engines import KeptEngines
from app.console.lag_reading import LagReading
from app.console.slow_answers import SlowAnswers
from app.console.window_reader import WindowReader
from app.errors import ConfigInvalid
from app.kafka.broker import Broker
from app.ledger.held_lanes import lanes_there
from app.poison.guard_database import guard_database

log = structlog.get_logger()

#: seconds after which connections that no page uses are closed
IDLE_SECONDS = 30.0


class ServedLane:
    """A lane, by its configuration. Its connections are opened when a page needs them."""

    def __init__(
        self, settings: Settings, file: Path | None, log: EpochLog, windows: WindowReader, engines: KeptEngines
    ) -> None:
        """`log`, `windows`, `engines`: of all lanes."""
        self.settings, self.file, self.log, self.windows = settings, file, log, windows
        self._engines = engines
        self.lag = LagReading(self._measure)
        self.plans = SlowAnswers()
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

    @property
    def engine(self) -> Engine:
        return self._engines.of(self.settings.target.url, self.settings.target.owner_role)

    @property
    def guard_engine(self) -> Engine:
        return self._engines.of(*guard_database(self.settings))

    def in_ledger(self, connection: Connection, wanted: str | None) -> str:
        """The lane's name in the ledger: with `order: partition` the wanted partition's, or the first one's."""
        if not self.several:
            return self.name
        names = lanes_there(connection, self.schema, self.name, several=True)
        return wanted if wanted in names else names[0] if names else self.name

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

    def close_idle(self, idle_seconds: float = IDLE_SECONDS) -> None:
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

    def __init__(self, files: Sequence[Path | None], folder: Path | None, logs: Sequence[Path]) -> None:
        """The lanes of configurations, and of all `*.yaml` and `*.yml` of a folder; None is the default configuration.
        Raises ConfigInvalid where no configuration can be read, or two are of one lane."""
        self._files, self._folder, self._log = tuple(files), folder, EpochLog(logs)
        self._windows, self._engines = WindowReader(), KeptEngines()
        self._stamps = self._read_stamps()
        self._lanes, self.broken = self._read()

    def __iter__(self) -> Iterator[ServedLane]:
        return iter(list(self._lanes.values()))

    def __len__(self) -> int:
        return len(self._lanes)

    def get(self, name: str) -> ServedLane | None:
        return self._lanes.get(name)

    def close_idle(self, idle_seconds: float = IDLE_SECONDS) -> None:
        for one in self:
            one.close_idle(idle_seconds)
        self._engines.close_idle(idle_seconds)

    def close(self) -> None:
        """At the end of the console."""
        self.close_idle(0)
        self._windows.close()

    def refresh(self) -> None:
        """Read the configurations again where a file has changed. A lane whose configuration is the same keeps its
        connections; one with faults stays as it was, and is listed with them."""
        stamps = self._read_stamps()
        if stamps == self._stamps:
            return
        self._stamps, before = stamps, self._lanes
        try:
            found, self.broken = self._read()
        except ConfigInvalid as error:
            self.broken = ((Path(self._folder or "."), str(error)),)
            return
        faulty = {file for file, _ in self.broken}
        kept = {name: one for name, one in before.items() if name in found or _path(one.file) in faulty}
        self._lanes = found | {
            name: one for name, one in kept.items() if name not in found or found[name].settings == one.settings
        }
        for one in before.values():
            if self._lanes.get(one.name) is not one:
                one.close_idle(0)
        log.info("configuration read again", lanes=list(self._lanes), broken=[str(file) for file in faulty])

    def _every(self) -> list[Path | None]:
        folder = self._folder
        return [*self._files, *(sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]) if folder is not None else ())]

    def _read_stamps(self) -> dict[Path, tuple[int, int] | None]:
        """Time and size of each file; None: it is not there."""
        return {path: _stamp(path) for path in map(_path, self._every())}

    def _read(self) -> tuple[dict[str, ServedLane], tuple[tuple[Path, str], ...]]:
        """Lanes by name, and files with their faults. Each query of a configuration is shown as a lane, too."""
        found: dict[str, ServedLane] = {}
        broken: list[tuple[Path, str]] = []
        for file in self._every():
            try:
                settings = load(file)
            except ConfigInvalid as error:
                broken.append((_path(file), str(error)))
                continue
            for one in (settings, *(settings.of_query(name) for name in settings.queries)):
                if one.lane in found:
                    hint = "name each configuration once; SURELANE_LANE and other variables apply to all of them"
                    raise ConfigInvalid(
                        f"two configurations are of lane {one.lane}: {found[one.lane].file}, {file}", hint=hint
                    )
                found[one.lane] = ServedLane(one, file, self._log, self._windows, self._engines)
        if not found:
            faults = "".join(f"\n{fault}" for _, fault in broken) or f"\nno *.yaml or *.yml in {self._folder}"
            raise ConfigInvalid(
                f"there is no lane to show:{faults}", hint="name a configuration with --config, or a folder"
            )
        return found, tuple(broken)


def _path(file: Path | None) -> Path:
    return file or DEFAULT_FILE


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
