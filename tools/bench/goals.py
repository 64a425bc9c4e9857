"""A goal of a measurement, and the verdict on it."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A limit for a figure."""

    what: str
    unit: str = ""
    limit: float
    #: None: too little data to judge, or a wrong table
    found: float | None
    at_least: bool = False
    #: all figures of which `found` is the worst
    detail: str = ""

    @property
    def verdict(self) -> str:
        if self.found is None:
            return "not judged"
        reached = self.found >= self.limit if self.at_least else self.found <= self.limit
        return "reached" if reached else "MISSED"

    @property
    def asked(self) -> str:
        """The limit as a sentence has it."""
        return f"{'at least' if self.at_least else 'at most'} {self.limit:g} {self.unit}".rstrip()

    def as_result(self) -> dict[str, object]:
        """Fields for a JSON line."""
        return {**asdict(self), "verdict": self.verdict}
