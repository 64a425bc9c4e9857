"""The parameters of a page: parts of its path, and filters of its query string."""

import datetime
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from app.model.moment import EXAMPLE, moment
from app.poison.storable_text import storable
from app.quarantine.operator import Filter
from app.quarantine.quarantine import EntryState

#: entries that are changed, or shown, together
MAX_NUMBERS = 10_000
#: lines of a list, if the address asks for no other number
PAGE_LINES = 50
MAX_LINES = 500
#: the greatest number that Postgres' bigint holds
_BIGGEST = 2**63 - 1


class NoSuchThing(Exception):
    """The address names something that is not there."""


class AddressInvalid(Exception):
    """A filter of the page's address cannot be read."""


class Parameters:
    """Each parameter once or more often; an empty value counts as none."""

    def __init__(self, path: Mapping[str, str], query: Sequence[tuple[str, str]]) -> None:
        self._path = dict(path)
        self._query = [(name, value) for name, value in query if value != ""]

    @property
    def query(self) -> str:
        """The query string, without empty values."""
        return urlencode(self._query)

    def with_(self, **more: object) -> str:
        """The query string, with these in place of the same ones; None removes one."""
        kept = [(name, value) for name, value in self._query if name not in more]
        return urlencode([*kept, *((name, str(value)) for name, value in more.items() if value is not None)])

    def text(self, name: str) -> str | None:
        if name in self._path:
            return storable(self._path[name])
        return next((storable(value) for key, value in self._query if key == name), None)

    def all(self, name: str) -> list[str]:
        return [storable(value) for key, value in self._query if key == name]

    def has(self, name: str) -> bool:
        return self.text(name) is not None

    def number(self, name: str) -> int | None:
        """Raises AddressInvalid for what is no number of Postgres."""
        text = self.text(name)
        if text is None:
            return None
        if not (text.isdecimal() and text.isascii() and len(text) <= 19 and int(text) <= _BIGGEST):
            raise AddressInvalid(f"{name}: {text[:50]} is no number: write digits")
        return int(text)

    @property
    def limit(self) -> int:
        """Lines of a list."""
        return min(max(self.number("limit") or PAGE_LINES, 1), MAX_LINES)

    def numbers(self, name: str) -> tuple[int, ...]:
        """Numbers and ranges: 1-50,60. Raises AddressInvalid for anything else, and for too many."""
        found: list[int] = []
        for part in (self.text(name) or "").split(","):
            first, dash, last = part.partition("-")
            last = last if dash else first
            if not all(text.isdecimal() and text.isascii() and len(text) <= 18 for text in (first, last)):
                raise AddressInvalid(f"{name}: {part[:50]} is no number or range")
            if int(last) - int(first) >= MAX_NUMBERS - len(found):
                raise AddressInvalid(f"{name}: these are more than {MAX_NUMBERS}")
            found += range(int(first), int(last) + 1)
        return tuple(found)

    def span(self, name: str) -> tuple[int, int] | None:
        """A first and a last number: 7-90. Raises AddressInvalid."""
        text = self.text(name)
        if text is None:
            return None
        first, _, last = text.partition("-")
        if not all(one.isdecimal() and one.isascii() and len(one) <= 18 for one in (first, last)):
            raise AddressInvalid(f"{name}: {text[:50]} is no range: write it like 7-90")
        return int(first), int(last)

    def moment(self, name: str) -> datetime.datetime | None:
        """Raises AddressInvalid for what is no time."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return moment(text)
        except ValueError:
            raise AddressInvalid(f"{name}: {text[:50]} is no time: write it like {EXAMPLE}") from None

    def quarantine_filter(self) -> Filter:
        """As the options of `surelane quarantine list`."""
        known = {state.value for state in EntryState}
        states = self.all("state")
        if wrong := [state for state in states if state not in known]:
            raise AddressInvalid(f"state: {wrong[0][:50]} is none of {', '.join(sorted(known))}")
        return Filter(
            states=tuple(map(EntryState, states)),
            table=self.text("table"),
            topic=self.text("topic"),
            since=self.moment("since"),
            reason=self.text("reason"),
            sqlstate=self.text("sqlstate"),
        )


def ranges_of(numbers: Sequence[int]) -> str:
    """As `Parameters.numbers` reads it; the numbers are ascending."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
