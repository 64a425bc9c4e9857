"""Staging for one lane: what is asked for ahead of its turn, and what its epochs take."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from app.apply.applier import StagedLayout
from app.apply.table_plans import TablePlan, TablePlans
from app.errors import SurelaneError
from app.model.for_driver import ForDriver
from app.model.message import RawMessage
from app.model.offsets import Offsets, Span, TopicPartition
from app.model.rows import Layout
from app.stage.lending import Lending, Lent
from app.stage.pool import Lost, Pool, Process, StageAttempt
from app.stage.receipt import Declined, Final, Receipt, Staged, Wanted
from app.stage.request import KnownTerms, StoredMessage, Tables, ranges_of

log = structlog.get_logger()

#: epochs for the driver after one that could not be staged, or not merged as it was: the next ones probably cannot be
PAUSE_EPOCHS = 10
#: seconds that an epoch waits for the first stage process to connect
PATIENCE_SECONDS = 10.0
#: seconds between two looks whether there is one
_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class StagedSpan:
    """A span whose changes are in staging tables."""

    receipt: Receipt
    layouts: Sequence[StagedLayout]
    #: the tables that have the rows, of which the lane has to say when it has done with them
    lent: Sequence[Lent]
    lending: Lending

    def release(self) -> None:
        """The epoch that has merged it is committed, or came to nothing: the tables are free."""
        sizes = {one.layout: one.size for one in self.receipt.staged}
        for one in self.lent:
            self.lending.take_back(one, sizes[one.layout])


@dataclass
class _Asked:
    """An attempt, and what was lent for it."""

    span: Span
    attempt: StageAttempt
    #: None: the layout is left out
    lent: dict[str, Lent | None] = field(default_factory=dict)


class LaneStage:
    """Used by the lane's thread; grants are given by the threads of the stage processes, too."""

    def __init__(
        self,
        lane: str,
        pool: Pool,
        shapes: TablePlans,
        lending: Lending,
        *,
        held_keys: Callable[[], Iterable[str]] = tuple,
        still: Callable[[], None] = lambda: None,
        for_driver: Callable[[ForDriver], None] = lambda _: None,
    ) -> None:
        """`held_keys`: message keys whose changes wait in quarantine; `still` is called again and again while one waits
        for a task, whose own time is looked after here; `for_driver` counts spans that are not taken of tasks."""
        self._held_keys, self._still, self._for_driver = held_keys, still, for_driver
        #: bytes of a span that is not staged yet, about
        self._each = 0
        self._lane, self._pool, self._shapes, self._lending = lane, pool, shapes, lending
        self._asked: list[_Asked] = []
        #: layouts of the span before: the next one is likely to have the same
        self._usual: tuple[str, ...] = ()
        self._last: Process | None = None
        self._pause, self._terms = 0, KnownTerms()

    def go_to(self, start: Offsets, terms: Mapping[TopicPartition, int]) -> None:
        """Where the first epoch begins. `terms`: leader epoch of the message before it, where it is known."""
        self._terms = KnownTerms(start, terms)

    def ask(self, spans: Sequence[Span], each: int = 0) -> None:
        """Have these staged ahead of their turn, and nothing else; as many of them as may be ahead, where one takes
        about so many bytes."""
        self._each = each
        spans = spans[: self._book(spans)]
        kept = [one for one in self._asked if one.span in spans]
        self._drop([one for one in self._asked if one.span not in spans])
        self._asked = kept
        known = [one.span for one in kept]
        self._asked += [self._begin(span) for span in spans if span not in known]

    def take(self, span: Span, given: Sequence[RawMessage] = ()) -> StagedSpan | None:
        """This span's changes, staged now if they are not yet; None: the driver needs its rows. `given`: its messages,
        where they are not Kafka's."""
        if self._pause:
            self._pause -= 1
            self._for_driver(ForDriver.PAUSED)
            return None
        asked = None if given else next((one for one in self._asked if one.span == span), None)
        if asked is None:
            self.ask([])
            asked = self._begin(span, given)
        else:
            self._asked.remove(asked)
            self._book([one.span for one in self._asked])
        staged = self._wait(asked)
        if staged is None:
            self._usual = ()
        return staged

    def pause(self, because: ForDriver = ForDriver.REFUSED) -> None:
        """Leave the next epochs to the driver."""
        self._for_driver(because)
        self._pause = PAUSE_EPOCHS
        self.ask([])

    def close(self) -> None:
        """Cancel what was asked for; when nobody asks any more."""
        self.ask([])
        self._lending.close()

    def _book(self, spans: Sequence[Span]) -> int:
        sizes = {one.span: one.attempt.size for one in self._asked}
        return self._pool.ahead.book(self._lane, [sizes.get(span, 0) or self._each for span in spans])

    def _begin(self, span: Span, given: Sequence[RawMessage] = ()) -> _Asked:
        lent = {text: self._lend(text, self._known(text)) for text in self._usual if self._knows(text)}
        holder: list[_Asked] = []

        def grants(attempt: StageAttempt, wanted: Wanted) -> bool:
            """As far as all of it is known."""
            return bool(holder) and self._grant_known(holder[0], attempt, wanted)

        messages, keys = tuple(map(StoredMessage.of, given)), tuple(self._held_keys())
        attempt = self._pool.begin(
            self._lane, ranges_of(span, self._terms), messages, keys, _tables(lent), grants, self._last
        )
        self._last = attempt.process
        asked = _Asked(span, attempt, dict(lent))
        holder.append(asked)
        return asked

    def _grant_known(self, asked: _Asked, attempt: StageAttempt, wanted: Wanted) -> bool:
        texts = [one.layout for one in wanted.layouts]
        if not all(map(self._knows, texts)):
            return False
        try:
            found = {text: self._lend(text, self._known(text)) for text in texts}
        except SurelaneError:
            return False  # met again when its turn comes
        asked.lent.update(found)
        attempt.grant(_tables(found))
        return True

    def _wait(self, asked: _Asked) -> StagedSpan | None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            match self._answer(asked.attempt, deadline):
                case None:
                    log.warning("no stage process has connected", lane=self._lane, within_seconds=PATIENCE_SECONDS)
                    self._drop([asked])
                    self._for_driver(ForDriver.NO_PROCESS)
                    return None
                case Wanted() as wanted:
                    self._grant(asked, wanted)
                case Receipt() as receipt:
                    return self._accepted(asked, receipt)
                case Declined() as declined:
                    log.info("not staged by a task", lane=self._lane, because=declined.because)
                    self._return_all(asked)
                    self.pause(declined.reason)
                    return None
                case Lost() as lost:
                    log.warning("a stage process is lost", lane=self._lane, because=str(lost.death))
                    self._lose_all(asked)
                    self._for_driver(ForDriver.LOST)
                    return None
                case _:
                    raise AssertionError("it was asked for no rows")

    def _answer(self, attempt: StageAttempt, deadline: float) -> Wanted | Final | Lost | None:
        """The next one; None where there is no process at the deadline."""
        while (answer := self._pool.answer(attempt, _LOOK_SECONDS)) is None:
            self._still()
            if attempt.process is None and time.monotonic() > deadline:
                return None
        return answer

    def _grant(self, asked: _Asked, wanted: Wanted) -> None:
        """Raises TargetMismatch for what the target is not made for."""
        try:
            with self._shapes.together():
                found: dict[str, Lent | None] = {}
                for one in wanted.layouts:
                    shape = self._shapes.shape(Layout.parse(one.layout), one.first.position)
                    found[one.layout] = self._lend(one.layout, shape)
        except BaseException:
            self._drop([asked])
            raise
        asked.lent.update(found)
        asked.attempt.grant(_tables(found))

    def _accepted(self, asked: _Asked, receipt: Receipt) -> StagedSpan | None:
        """If the target's tables are what they were when it was asked for."""
        present = {one.layout: one for one in receipt.staged}
        lent = {text: one for text, one in asked.lent.items() if one is not None}
        with self._shapes.together():
            is_current = all(self._is_current(one, lent.get(text)) for text, one in present.items())
        for text, one in lent.items():
            if text not in present or not is_current:
                self._lending.take_back(one)
        if not is_current:
            self._for_driver(ForDriver.CHANGED)
            return None
        self._usual = tuple(present)
        layouts = [
            StagedLayout(
                shape=lent[text].shape if text in lent else None,
                key=frozenset(one.key),
                messages=one.messages,
                rows=one.rows,
            )
            for text, one in present.items()
        ]
        return StagedSpan(receipt, layouts, [one for text, one in lent.items() if text in present], self._lending)

    def _is_current(self, staged: Staged, lent: Lent | None) -> bool:
        shape = self._shapes.shape(Layout.parse(staged.layout), staged.first.position)
        return shape is (None if lent is None else lent.made_for)

    def _known(self, text: str) -> TablePlan | None:
        return self._shapes.known(Layout.parse(text))

    def _knows(self, text: str) -> bool:
        return self._shapes.knows(Layout.parse(text))

    def _lend(self, text: str, shape: TablePlan | None) -> Lent | None:
        return None if shape is None else self._lending.lend(text, shape)

    def _drop(self, asked: Sequence[_Asked]) -> None:
        """What they were lent comes back when their processes have done with it."""
        for one in asked:
            self._pool.cancel(one.attempt, partial(self._return_all, one), partial(self._lose_all, one))

    def _return_all(self, asked: _Asked) -> None:
        for one in asked.lent.values():
            if one is not None:
                self._lending.take_back(one)

    def _lose_all(self, asked: _Asked) -> None:
        for one in asked.lent.values():
            if one is not None:
                self._lending.lose(one)


def _tables(lent: Mapping[str, Lent | None]) -> Tables:
    return {text: None if one is None else one.table for text, one in lent.items()}
