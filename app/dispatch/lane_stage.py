"""Staging for one lane: requests spans ahead of their turn, and gives its epochs the staged spans."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from app.apply.applier import StagedLayout
from app.apply.table_plans import TablePlan, TablePlans
from app.dispatch.lending import Lending, Lent
from app.dispatch.pool import Lost, Pool, Process, StageAttempt
from app.errors import SurelaneError
from app.model.for_driver import ForDriver
from app.model.message import RawMessage
from app.model.offsets import Offsets, Span, TopicPartition
from app.model.row_layout import Layout
from app.stage.receipt import Declined, Final, Receipt, Staged, Wanted
from app.stage.request import KnownTerms, StoredMessage, Tables, ranges_of

log = structlog.get_logger()

#: epochs that the driver reads after one that could not be staged, or not merged as staged: the next probably cannot
PAUSE_EPOCHS = 10
#: seconds that an epoch waits for the first stage process to connect
PATIENCE_SECONDS = 10.0
#: seconds between two checks whether one has connected
_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class StagedSpan:
    """A span whose changes are in staging tables, or on their way there."""

    receipt: Receipt
    layouts: Sequence[StagedLayout]
    #: the tables of the rows; the lane calls `release` when it is done with them
    lent: Sequence[Lent]
    lending: Lending

    @property
    def is_small(self) -> bool:
        """Whether the tables get the rows in the transaction that merges them."""
        return all(one.filling or not one.rows for one in self.layouts)

    def release(self) -> None:
        """Give the tables back, once the epoch that merged them is committed or given up."""
        sizes = {one.layout: one.size for one in self.receipt.staged}
        for one in self.lent:
            self.lending.take_back(one, sizes[one.layout])


@dataclass
class _RequestedSpan:
    """A span that was requested, and the tables lent for it."""

    span: Span
    attempt: StageAttempt
    #: by layout text; None: the layout is left out
    lent: dict[str, Lent | None] = field(default_factory=dict)


class LaneStage:
    """Used by one thread at a time; the pool's threads, one for each connection, grant tables, too."""

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
        """`held_keys`: message keys whose changes wait in quarantine; `still` is called repeatedly while the lane waits
        for a task, whose own time the pool limits; `for_driver` counts spans that the driver reads itself."""
        self._held_keys, self._still, self._for_driver = held_keys, still, for_driver
        #: estimated bytes of a span that is not staged yet
        self._each = 0
        self._lane, self._pool, self._shapes, self._lending = lane, pool, shapes, lending
        self._requested: list[_RequestedSpan] = []
        #: layouts of the last span: the next one probably has the same
        self._usual: tuple[str, ...] = ()
        self._last: Process | None = None
        self._pause, self._terms = 0, KnownTerms()

    def go_to(self, start: Offsets, terms: Mapping[TopicPartition, int]) -> None:
        """Set where the first epoch begins. `terms`: leader epochs of the messages before `start`, where known."""
        self._terms = KnownTerms(start, terms)

    def ask(self, spans: Sequence[Span], each: int = 0) -> None:
        """Have these spans staged ahead, as many as the limit allows, and cancel all others. `each`: estimated bytes of
        a span."""
        self._each = each
        spans = spans[: self._book(spans)]
        kept = [one for one in self._requested if one.span in spans]
        self._drop([one for one in self._requested if one.span not in spans])
        self._requested = kept
        known = [one.span for one in kept]
        self._requested += [self._begin(span) for span in spans if span not in known]

    def take(self, span: Span, given: Sequence[RawMessage] = ()) -> StagedSpan | None:
        """The span's changes, staged now unless they are already; None: the driver needs its rows. `given`: its
        messages, where they are not to be read from Kafka."""
        if self._pause:
            self._pause -= 1
            self._for_driver(ForDriver.PAUSED)
            return None
        requested = None if given else next((one for one in self._requested if one.span == span), None)
        if requested is None:
            self.ask([])
            requested = self._begin(span, given)
        else:
            self._requested.remove(requested)
            self._book([one.span for one in self._requested])
        staged = self._wait(requested)
        if staged is None:
            self._usual = ()
        return staged

    def pause(self, because: ForDriver = ForDriver.REFUSED) -> None:
        """Have the driver read the next PAUSE_EPOCHS epochs."""
        self._for_driver(because)
        self._pause = PAUSE_EPOCHS
        self.ask([])

    def close(self) -> None:
        """Cancel all spans and drop the free tables; call it last."""
        self.ask([])
        self._lending.close()

    def _book(self, spans: Sequence[Span]) -> int:
        sizes = {one.span: one.attempt.size for one in self._requested}
        return self._pool.ahead.book(self._lane, [sizes.get(span, 0) or self._each for span in spans])

    def _begin(self, span: Span, given: Sequence[RawMessage] = ()) -> _RequestedSpan:
        lent = self._lend_all((text, self._known(text)) for text in self._usual if self._knows(text))
        holder: list[_RequestedSpan] = []

        def grants(attempt: StageAttempt, wanted: Wanted) -> bool:
            """Grant at once if the plans of all these layouts are known."""
            return bool(holder) and self._grant_known(holder[0], attempt, wanted)

        messages, keys = tuple(map(StoredMessage.of, given)), tuple(self._held_keys())
        attempt = self._pool.begin(
            self._lane, ranges_of(span, self._terms), messages, keys, _tables(lent), grants, self._last
        )
        self._last = attempt.process
        requested = _RequestedSpan(span, attempt, dict(lent))
        holder.append(requested)
        return requested

    def _grant_known(self, requested: _RequestedSpan, attempt: StageAttempt, wanted: Wanted) -> bool:
        texts = [one.layout for one in wanted.layouts]
        if not all(map(self._knows, texts)):
            return False
        try:
            found = self._lend_all((text, self._known(text)) for text in texts)
        except SurelaneError:
            return False  # raised again when the span's turn comes
        requested.lent.update(found)
        attempt.grant(_tables(found))
        return True

    def _wait(self, requested: _RequestedSpan) -> StagedSpan | None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            match self._answer(requested.attempt, deadline):
                case None:
                    log.warning("no stage process has connected", lane=self._lane, within_seconds=PATIENCE_SECONDS)
                    self._drop([requested])
                    self._for_driver(ForDriver.NO_PROCESS)
                    return None
                case Wanted() as wanted:
                    self._grant(requested, wanted)
                case Receipt() as receipt:
                    return self._accepted(requested, receipt)
                case Declined() as declined:
                    log.info("not staged by a task", lane=self._lane, because=declined.because)
                    self._return_all(requested)
                    self.pause(declined.reason)
                    return None
                case Lost() as lost:
                    log.warning("a stage process is lost", lane=self._lane, because=str(lost.death))
                    self._lose_all(requested)
                    self._for_driver(ForDriver.LOST)
                    return None
                case _:
                    raise AssertionError("it was asked for no rows")

    def _answer(self, attempt: StageAttempt, deadline: float) -> Wanted | Final | Lost | None:
        """The next answer; None where no process has connected at the deadline."""
        while (answer := self._pool.answer(attempt, _LOOK_SECONDS)) is None:
            self._still()
            if attempt.process is None and time.monotonic() > deadline:
                return None
        return answer

    def _grant(self, requested: _RequestedSpan, wanted: Wanted) -> None:
        """Raises TargetMismatch for a layout that the target cannot take."""
        try:
            with self._shapes.together():
                found = self._lend_all(
                    (one.layout, self._shapes.shape(Layout.parse(one.layout), one.first.position))
                    for one in wanted.layouts
                )
        except BaseException:
            self._drop([requested])
            raise
        requested.lent.update(found)
        requested.attempt.grant(_tables(found))

    def _accepted(self, requested: _RequestedSpan, receipt: Receipt) -> StagedSpan | None:
        """The staged span; None if the target's tables have changed since it was requested."""
        present = {one.layout: one for one in receipt.staged}
        lent = {text: one for text, one in requested.lent.items() if one is not None}
        with self._shapes.together():
            is_current = all(self._is_current(one, lent.get(text)) for text, one in present.items())
        for text, one in lent.items():
            if text not in present:
                self._lending.unused(one)
            elif not is_current:
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
                filling=one.statements,
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

    def _lend_all(self, plans: Iterable[tuple[str, TablePlan | None]]) -> dict[str, Lent | None]:
        """A table for each of these layouts that the target takes; at an error none is lent."""
        lent: dict[str, Lent | None] = {}
        try:
            for text, plan in plans:
                lent[text] = None if plan is None else self._lending.lend(text, plan)
        except BaseException:
            self._return(lent)
            raise
        return lent

    def _drop(self, requested: Sequence[_RequestedSpan]) -> None:
        """Cancel; the lent tables come back when their processes are done with them."""
        for one in requested:
            self._pool.cancel(one.attempt, partial(self._return_all, one), partial(self._lose_all, one))

    def _return_all(self, requested: _RequestedSpan) -> None:
        self._return(requested.lent)

    def _return(self, lent: Mapping[str, Lent | None]) -> None:
        for one in lent.values():
            if one is not None:
                self._lending.take_back(one)

    def _lose_all(self, requested: _RequestedSpan) -> None:
        for one in requested.lent.values():
            if one is not None:
                self._lending.lose(one)


def _tables(lent: Mapping[str, Lent | None]) -> Tables:
    return {text: None if one is None else one.table for text, one in lent.items()}
