"""A lane or a query that is killed again and again while it works, and a reader that looks all the while."""

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from app.config.settings import CommitMode
from app.errors import ExitStatus
from app.failpoint import NAMES
from tests.crash.cases import ARCHIVE, TWO_PHASE_ONLY
from tests.fix_lane import LaneUnderTest, MakeProcess
from tests.oracle import PAUSE_SECONDS
from tests.queries import Shop

#: an ordinary run takes the first
MODES = [pytest.param(mode, marks=() if mode is CommitMode.TWO_PHASE else pytest.mark.full) for mode in CommitMode]
#: kills of a case of a lane in an ordinary run; of one of a query, which starts more slowly; of each with --full-matrix
KILLS = 6
FEW_KILLS = 2
FULL_KILLS = 100
#: a hundred kills of a query took 2,462 s beside two other cases, on two cores
TIMEOUT_SECONDS = 6000
EPOCH_MESSAGES = 40


class Looks:
    """A reader in a thread: `look` returns what no reader may see, or nothing."""

    def __init__(self, look: Callable[[], Any]) -> None:
        self._look, self._stop = look, threading.Event()
        self.looks, self.wrong = 0, list[Any]()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._watch, name="reader", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Fails where it saw something that no reader may see."""
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        assert self.looks
        assert self.wrong == []

    def _watch(self) -> None:
        try:
            while not self._stop.wait(PAUSE_SECONDS):
                if wrong := self._look():
                    self.wrong.append(wrong)
                self.looks += 1
        except BaseException as error:  # noqa: BLE001  # raised by `stop`
            self._failure = error


def places_of(mode: CommitMode, *more: str) -> list[str]:
    """The places of an epoch in this mode, and `more`."""
    own = [name for name in NAMES if not name.startswith(ARCHIVE)]
    return [*(one for one in own if one not in TWO_PHASE_ONLY or mode is CommitMode.TWO_PHASE), *more]


def three_epochs(shop: Shop, name: str) -> Callable[[], None]:
    """Sends so many of this lane or query, unless they wait already: a start may decide one, and a kill needs two."""

    def send() -> None:
        read = min(shop.target.position(name).values(), default=0)
        if shop.topic.end - read < 3 * EPOCH_MESSAGES:
            shop.send(3 * EPOCH_MESSAGES)

    return send


@dataclass(frozen=True)
class Kills:
    """Of a lane or a query, at random moments of `seed`."""

    process: MakeProcess
    seed: int
    is_full: bool

    def at(
        self, made: LaneUnderTest, places: Sequence[str], kills: int, send: Callable[[], None], *arguments: str
    ) -> None:
        """`kills` of them, or FULL_KILLS: at each of the places once before at any twice. It catches up in the end.

        At the first or the second time at the place: an epoch that was killed before, which the guard then tries in
        parts, or the one behind it.
        """
        chance = random.Random(self.seed)
        left: list[str] = []
        number = FULL_KILLS if self.is_full else kills
        for kill in range(number):
            left = left or chance.sample(places, len(places))
            send()
            place = f"{left.pop()}=kill@{chance.choice((1, 2, 2))}"
            print(f"kill {kill + 1} of {number}: {place}", flush=True)  # shown with -s
            killed = self.process(made, failpoint=place, arguments=arguments).start()
            assert killed.wait() < 0, f"{place}\n{killed.tail()}"
        send()
        last = self.process(made, until_caught_up=True, arguments=arguments).start()
        assert last.wait() == ExitStatus.OK, last.tail()
