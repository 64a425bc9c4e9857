"""Finds the message that deferred constraints fail for: each change passes, and the epoch as a whole does not.

Let f(k) be whether they hold after the epoch's first k messages. After the last k for which f is true a violation
begins, and until the end there is always one. Either it stays, and that message is the culprit. Or it is repaired later
(a child before its parent), but not before another one has begun: then the culprit is the first later message whose own
changes violate a constraint at the epoch's end. So

    1. `_last_held`: the last such k, by FAN_OUT parts: the part after the last end where f is true is cut again.
       f may be true within a later part, too: if few messages are left, f is computed after each of them.
    2. `_first_failing`: the first message from there on whose changes fail at the end, by probes between FAN_OUT parts.
    3. `_tried`: that message is tried, at the end of the epoch, as often as a message may fail.

Messages before the one that 1. finds stay applied, so the search goes forward only; later ones are applied anew without
the culprit, which may have repaired something itself. A message whose violation is repaired is never condemned, but for
one case: if another message begins the same violation anew, before all constraints have held for a moment, the first
one is taken for the other.

The guard records each pass; a message that kills the process in one is narrowed down when the epoch is applied again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from app.apply.applier import Applied
from app.apply.constraints import Deferred
from app.db.sql import discarded
from app.errors import Unreachable
from app.lane.guarded_apply import GuardedApply
from app.model.counts import Counts
from app.poison.attempts import AttemptStage, Suspect
from app.poison.guard import Failure
from app.poison.narrowing import FAN_OUT, single
from app.poison.row_parts import Rows, split_rows
from app.poison.try_until_condemned import try_until_condemned

#: checked one by one, so many take about a second
FEW_MESSAGES = FAN_OUT**2


@dataclass
class DeferredConstraintSearch:
    """The search in one epoch, from an ordinal on where the constraints hold."""

    sending: GuardedApply
    deferred: Deferred
    #: of the messages that the search left applied
    counts: Counts = field(default_factory=Counts)

    def run(self, rows: Rows) -> tuple[int, int, Suspect | None]:
        """Returns the ordinal where the constraints held for the last time, the culprit's ordinal, and the culprit as a
        suspect (None: the constraints hold by now). All rows before the first ordinal are applied then, and no others.
        """
        end = rows[1]
        held = self._last_held(rows)
        if held == end:
            return end, end, None
        with self.sending.connection.begin_nested() as inside:
            at, counts = self._first_failing(held, end)
            if at == end:  # cut into other parts nothing fails: all of it stays applied
                self.counts += counts
                return end, end, None
            suspect = self._tried(at, end)
            inside.rollback()
        if suspect is None and held == rows[0]:
            raise _changed()
        return held, at, suspect

    def _last_held(self, rows: Rows) -> int:
        at, end = rows
        after = end
        while after - at > 1:
            at, after = self._to_last_held(at, _ends(at, after), end)
        if end - at <= FEW_MESSAGES:
            at, _ = self._to_last_held(at, range(at + 1, end + 1), end)
        return at

    def _to_last_held(self, first: int, ends: Sequence[int], end: int) -> Rows:
        """Apply all up to the last of these ends where the constraints hold. Returns the rows from it to the next."""
        held = first
        with discarded(self.sending.connection):
            for reached, result in self._sent(first, ends):
                if isinstance(result, Applied) and self._violation() is None:
                    held = reached
        self.counts += self._apply(first, ends, held)
        if self._violation() is not None:
            raise _changed()
        return self.sending.first_applied(held, end), next((one for one in ends if one > held), held)

    def _first_failing(self, at: int, end: int) -> tuple[int, Counts]:
        """The ordinal of the message, with everything before it applied, and the counts of that."""
        ends, counts = [at + 1, *_ends(at + 1, end)], Counts()
        while at < end:
            reached = self._holding_at_end(at, ends, end)
            counts += self._apply(at, ends, reached)
            at = self.sending.first_applied(reached, end)
            after = next((one for one in ends if one > at), end)
            if reached < ends[-1] and self.sending.first_applied(at + 1, after) == after:
                break
            ends = _ends(at, after)
        return at, counts

    def _holding_at_end(self, first: int, ends: Sequence[int], end: int) -> int:
        """The last of these ends before which nothing fails at the epoch's end; `first` if there is none."""
        holding, marked = first, list[int]()
        with discarded(self.sending.connection):
            marks = self.sending.marks(self.deferred)
            for reached, result in self._sent(first, [*ends, *_ends(ends[-1], end)]):
                if not isinstance(result, Applied):
                    continue
                if marks.violation() is None:
                    holding, marked = reached, []
                else:
                    marks.set(reached)
                    marked.append(reached)
            for place in marked:
                if marks.violation_before(place) is not None:
                    break
                holding = place
        return max((one for one in ends if one <= holding), default=first)

    def _tried(self, at: int, end: int) -> Suspect | None:
        """Try the message until it is condemned; None when the constraints hold."""
        guard, span, alone = self.sending.guard, single(self.sending.epoch.position(at)), (at, at + 1)
        suspect = guard.suspect(span, AttemptStage.APPLY)
        if suspect is not None and guard.condemns(suspect):
            return suspect
        with discarded(self.sending.connection):
            marks = self.sending.marks(self.deferred)
            guard.begin(self.sending.number, span, AttemptStage.APPLY)
            result = self.sending.attempt(alone)
            if isinstance(result, Applied):
                marks.set(at + 1)
                for _ in self._sent(at + 1, _ends(at + 1, end)):
                    pass

            def attempt(_: Suspect | None) -> Suspect | None:
                error = marks.violation_before(at + 1) if isinstance(result, Applied) else self.sending.attempt(alone)
                if not isinstance(error, Exception):
                    return None
                self.sending.check_order(at, error)
                return guard.failed(span, AttemptStage.APPLY, Failure.of(error))

            return try_until_condemned(
                guard, self.sending.number, span, AttemptStage.APPLY, attempt, self.sending.control
            )

    def _apply(self, first: int, ends: Iterable[int], held: int) -> Counts:
        """Apply everything up to `held`, in the same parts."""
        counts = Counts()
        for _, result in self._sent(first, [one for one in ends if one <= held]):
            if isinstance(result, Applied):
                counts += result.counts
                self._violation()  # what holds now need not hold later
        return counts

    def _violation(self) -> Exception | None:
        return self.deferred.violation(self.sending.connection)

    def _sent(self, first: int, ends: Sequence[int]) -> Iterator[tuple[int, Applied | Exception]]:
        """Send the rows before each of these ends. Refused ones go again with the next ones, which may repair them."""
        if ends and self.sending.first_applied(first, ends[-1]) < ends[-1]:
            self.sending.begin((first, ends[-1]))
        for end in ends:
            if self.sending.first_applied(first, end) == end:
                continue
            result = self.sending.attempt((first, end))
            if isinstance(result, Applied):
                first = end
            yield end, result


def _ends(first: int, end: int) -> list[int]:
    return [last for _, last in split_rows((first, end))]


def _changed() -> Unreachable:
    return Unreachable(
        "the target's data change while a message is looked for that its deferred constraints refuse",
        hint="the epoch is tried again; does another program write to these tables?",
    )
