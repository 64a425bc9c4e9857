"""The probe: a row that is given a new number at the source all the time, so that its way can be timed."""

import time

import psycopg2

#: seconds between two beats
EVERY_SECONDS = 0.05
_BEAT = "update probe set beat = %s, at = clock_timestamp() where id = 1"
_PGBENCH = "select from pg_stat_activity where application_name = 'pgbench'"


class Probe:
    """A client of the source; `step` is one beat."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg2.connect(url, application_name="probe")
        #: when the source had committed each beat (monotonic seconds); the first number is 1
        self.committed: list[float] = []

    @property
    def beats(self) -> int:
        """The newest number."""
        return len(self.committed)

    def step(self) -> None:
        """Commit the next number and note when that was done."""
        with self._connection, self._connection.cursor() as cursor:
            cursor.execute(_BEAT, [self.beats + 1])
        self.committed.append(time.monotonic())

    def is_alone(self) -> bool:
        """Whether pgbench has no session left at the source."""
        with self._connection, self._connection.cursor() as cursor:
            cursor.execute(_PGBENCH)
            return cursor.fetchone() is None

    def close(self) -> None:
        self._connection.close()
