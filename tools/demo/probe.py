"""The probe: a row at the source that gets a new number periodically, to measure the latency to the target."""

import time

import psycopg2

#: seconds between two beats
EVERY_SECONDS = 0.05
_BEAT = "update probe set beat = %s, at = clock_timestamp() where id = 1"
_PGBENCH = "select from pg_stat_activity where application_name = 'pgbench'"


class Probe:
    """A client of the source; each `step` commits one beat."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg2.connect(url, application_name="probe")
        #: monotonic seconds after each beat's commit; beat n is at index n - 1
        self.committed: list[float] = []

    @property
    def beats(self) -> int:
        """Number of the newest beat."""
        return len(self.committed)

    def step(self) -> None:
        """Commit the next beat and record the time."""
        with self._connection, self._connection.cursor() as cursor:
            cursor.execute(_BEAT, [self.beats + 1])
        self.committed.append(time.monotonic())

    def is_alone(self) -> bool:
        """Whether pgbench has no session at the source."""
        with self._connection, self._connection.cursor() as cursor:
            cursor.execute(_PGBENCH)
            return cursor.fetchone() is None

    def close(self) -> None:
        self._connection.close()
