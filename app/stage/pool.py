"""The stage processes, seen from the driver: resident Spark jobs of one task each, and what they have connected with.

Each job is submitted by a thread of its own, again and again for as long as the pool is open: Spark gives a task that
was lost with its executor another one, and a job that has failed all its tries is begun anew.
"""

import datetime
import itertools
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, Listener, answer_challenge, deliver_challenge
from queue import Empty, SimpleQueue

import msgspec
import structlog
from py4j.protocol import Py4JError
from pyspark import SparkContext

from app.model.activity import OWN_WORK, Activity
from app.model.death import SECONDS_A_MESSAGE, TASK_GONE, Cause, Death, ending
from app.model.in_flight import InFlight, InFlightView, SpanState, StageProcess
from app.model.message import RawMessage
from app.model.offsets import Offsets, Span
from app.stage.ahead import Ahead
from app.stage.receipt import Answer, Doing, Final, Receipt, Wanted
from app.stage.request import Cancel, Decode, Grant, Keep, Message, Range, Request, StoredMessage, Tables, Work
from app.stage.serving import Ended, Hello, Kill, Task, Tried, Try
from app.stage.stager import StageConfig
from app.stage.wire import keep_alive, socket_of

log = structlog.get_logger()

#: bytes of the secret that both ends of a connection prove to have
_KEY_BYTES = 32
#: seconds until a job that has failed is submitted again, at first and at most
_AGAIN_SECONDS = (0.2, 10.0)
#: seconds for which a job's process was connected, after which its failure is none of its start
_SETTLED_SECONDS = 1.0
#: seconds after the start when there is a word about tasks that have no core yet
_PLACED_SECONDS = 20.0
#: seconds from the end of a stage process to the report of it
_REPORT_SECONDS = 3.0
#: ends of processes that nobody asks for
_REMEMBERED = 100
#: seconds for the jobs to end by themselves when the pool is closed
_END_SECONDS = 5.0
_DECODER = msgspec.msgpack.Decoder(Hello | Ended | Tried | Answer)


@dataclass(frozen=True)
class Lost:
    """The process that was asked is gone."""

    #: how it died, and what it was doing with this request
    death: Death


@dataclass(eq=False)
class StageAttempt:
    """One request to one process. `answers` gets what it says of it, `Lost` at the latest."""

    request: Work
    #: seconds of the process' own work on it that are no hang
    limit_seconds: float
    answers: "SimpleQueue[Wanted | Final | Lost]" = field(default_factory=SimpleQueue)
    #: asked first, by the thread that reads from the process: whether the tables were granted at once
    grants: Callable[["StageAttempt", Wanted], bool] = lambda *_: False
    #: called instead of the last answer, once nobody wants it: when its process has done with it, and when it is lost
    afterwards: tuple[Callable[[], None], Callable[[], None]] | None = None
    #: None: there was no process yet
    process: "Process | None" = None
    #: None: it is not begun
    activity: Activity | None = None
    #: monotonic: when that began, or it was answered
    since: float = field(default_factory=time.monotonic)
    #: what is in `answers` at the end
    last: Final | Lost | None = None

    def grant(self, tables: Tables) -> None:
        """The answer to `Wanted`."""
        assert self.process is not None, "it has asked"
        self.process.send(Grant(self.request.id, tables))

    @property
    def hangs(self) -> bool:
        """Whether the process has worked on it for too long; what it waits for does not count."""
        return self.activity in OWN_WORK and time.monotonic() - self.since > self.limit_seconds

    def end(self, last: Final | Lost) -> None:
        """Give the last answer."""
        self.last, self.since = last, time.monotonic()
        self.answers.put(last)

    @property
    def size(self) -> int:
        """Bytes of the decoded rows of a span that is staged; 0: it is not."""
        return self.last.size if isinstance(self.last, Receipt) else 0

    def seen(self) -> InFlight:
        """From outside, now."""
        request = self.request
        span = Span(start=Offsets(), end=Offsets()) if isinstance(request, Decode) else request.span
        return InFlight(
            number=request.id,
            lane=request.lane,
            process=None if self.process is None else self.process.seen,
            span=span,
            state=self._state,
            age_seconds=max(0.0, time.monotonic() - self.since),
            size=self.size,
        )

    @property
    def _state(self) -> SpanState:
        if self.last is not None:
            return SpanState.STAGED if isinstance(self.last, Receipt) else SpanState.ANSWERED
        if self.afterwards is not None:
            return SpanState.CANCELLED
        return SpanState.WAITING if self.activity is None else SpanState(self.activity.value)


class Process:
    """One that is connected."""

    def __init__(self, hello: Hello, connection: Connection) -> None:
        self.hello, self._connection = hello, connection
        self._sending = threading.Lock()
        self._attempts: dict[int, StageAttempt] = {}
        self._is_gone = False
        self._trying, self._trials = threading.Lock(), SimpleQueue[Tried]()
        #: why it was killed, if it was
        self._hang: str | None = None

    @property
    def is_gone(self) -> bool:
        """Whether its connection has ended."""
        return self._is_gone

    @property
    def load(self) -> int:
        """Requests that it has not answered."""
        return len(self._attempts)

    @property
    def seen(self) -> StageProcess:
        """From outside."""
        return StageProcess(host=self.hello.host, slot=self.hello.slot, pid=self.hello.pid)

    @property
    def attempts(self) -> Sequence[StageAttempt]:
        """Those that it has not answered."""
        return tuple(self._attempts.values())

    @property
    def is_killed(self) -> bool:
        """Whether its end was ordered, because it hung."""
        return self._hang is not None

    def begin(self, attempt: StageAttempt) -> None:
        """Send the request."""
        attempt.process = self
        with self._sending:
            is_gone = self._is_gone
            if not is_gone:
                self._attempts[attempt.request.id] = attempt
        if is_gone:
            attempt.end(Lost(self._death(None, attempt)))
        else:
            self.send(attempt.request)

    def cancel(self, attempt: StageAttempt, afterwards: Callable[[], None], lost: Callable[[], None]) -> None:
        """See `Pool.cancel`."""
        with self._sending:
            is_open = self._attempts.get(attempt.request.id) is attempt
            if is_open:
                attempt.afterwards = (afterwards, lost)
        if is_open:
            self.send(Cancel(attempt.request.id))
        else:
            (lost if isinstance(attempt.answers.get(), Lost) else afterwards)()

    def send(self, message: Message) -> None:
        """One whose process is gone is lost; whoever waits for an answer hears of it."""
        with self._sending, suppress(OSError):
            self._connection.send_bytes(msgspec.msgpack.encode(message))

    def kill(self, other: "Process", hang: str) -> None:
        """Of a task's own process: end its stage process, which hangs."""
        other._hang = hang
        with self._sending, suppress(OSError):
            self._connection.send_bytes(msgspec.msgpack.encode(Kill(other.hello.pid)))

    def tried(self, message: StoredMessage, seconds: float) -> str | None:
        """Of a task's own process: what ended a process that did nothing but this message, None where it survived."""
        with self._trying:
            while not self._trials.empty():
                self._trials.get()
            with self._sending, suppress(OSError):
                self._connection.send_bytes(msgspec.msgpack.encode(Try(message, seconds)))
            with suppress(Empty):
                return self._trials.get(timeout=seconds + _REPORT_SECONDS).cause
        return None

    def run(self, ended: Callable[[Ended], None], ending: Callable[["Process"], Ended | None]) -> None:
        """Hand out its answers until it is gone. `ended` is told what it says of others' ends, `ending` says how it has
        ended."""
        try:
            while True:
                answer = _DECODER.decode(self._connection.recv_bytes())
                if isinstance(answer, Ended):
                    ended(answer)
                elif isinstance(answer, Tried):
                    self._trials.put(answer)
                elif not isinstance(answer, Hello):
                    self._hand_out(answer)
        except (EOFError, OSError):
            pass
        finally:
            with self._sending:
                self._is_gone = True
                left, self._attempts = list(self._attempts.values()), {}
            how = ending(self) if left else None
            for attempt in left:
                if attempt.afterwards is None:
                    attempt.end(Lost(self._death(how, attempt)))
                else:
                    attempt.afterwards[1]()
            self.close()

    def close(self) -> None:
        """It ends when it sees that."""
        with suppress(OSError), socket_of(self._connection) as own:
            own.shutdown(socket.SHUT_RDWR)

    def _hand_out(self, answer: Answer) -> None:
        attempt = self._attempts.get(answer.id)
        if attempt is None:
            return
        if isinstance(answer, Doing):
            attempt.activity, attempt.since = answer.activity, time.monotonic()
            return
        if isinstance(answer, Wanted):
            if not attempt.grants(attempt, answer):
                attempt.answers.put(answer)
            return
        with self._sending:
            del self._attempts[answer.id]
            afterwards = attempt.afterwards
        if afterwards is None:
            attempt.end(answer)
        else:
            afterwards[0]()

    def _death(self, ended: Ended | None, attempt: StageAttempt) -> Death:
        """What is known of it; None: nobody has said how it ended."""
        doing = {} if attempt.activity is None else {attempt.request.lane: attempt.activity.value}
        at = datetime.datetime.now(datetime.UTC)
        cause, detail = Cause.SIGNAL, "nobody knows how"
        if ended is not None:
            cause = _cause(ended, is_hang=self._hang is not None)
            detail = self._hang if cause is Cause.HANG and self._hang is not None else ending(ended.status)
        return Death(cause=cause, detail=detail, at=at, doing=doing)


class Pool:
    """All of them. Opened once for a Spark session; lanes come and go."""

    def __init__(
        self,
        spark: SparkContext,
        told: StageConfig,
        tasks: int,
        timeout_seconds: float,
        *,
        ahead: Ahead | None = None,
        least: int = 1,
    ) -> None:
        """`tasks`: how many stage processes there are to be; `timeout_seconds`: for one message, see
        `guard.message_timeout`; `ahead`: how much may be staged ahead, None: nothing; `least`: with fewer processes
        something is wrong."""
        self.ahead = ahead or Ahead(0)
        #: called with a short word, of few, for each stage process that has died
        self.on_death: Callable[[str], None] = lambda _: None
        self._timeout, self._least = timeout_seconds, least
        self._spark, self._told, self.tasks = spark, told, tasks
        self._key = secrets.token_bytes(_KEY_BYTES)
        conf = spark.getConf()
        self._host = conf.get("spark.driver.host") or socket.getfqdn()
        self._listener = Listener((conf.get("spark.driver.bindAddress") or self._host, 0))
        self._port = int(self._listener.address[1])
        self._accepting = threading.Thread(target=self._accept, name="stage accept", daemon=True)
        self._ids, self._lock = itertools.count(1), threading.Lock()
        self._processes: list[Process] = []
        #: begun while there was no process
        self._waiting: list[StageAttempt] = []
        #: whose last answer was not taken yet
        self._open: dict[int, StageAttempt] = {}
        #: how stage processes have ended, by host and pid
        self._ends: dict[tuple[str, int], Ended] = {}
        self._ended = threading.Condition()
        self._jobs: list[threading.Thread] = []
        #: until when processes of a job were connected, by slot
        self._settled: dict[int, float] = {}
        self._closed = threading.Event()

    @property
    def processes(self) -> Sequence[Process]:
        """Those that are connected."""
        return tuple(self._processes)

    def in_flight(self) -> InFlightView:
        """One look; for any thread."""
        with self._lock:
            stagers, found = self._stagers(), dict(self._open)
        for process in stagers:
            found |= {one.request.id: one for one in process.attempts}
        spans = tuple(found[number].seen() for number in sorted(found))
        return InFlightView(processes=tuple(sorted(one.seen for one in stagers)), spans=spans)

    def start(self) -> None:
        """Submit the jobs. Returns at once: a process is there in a second or so."""
        self._accepting.start()
        for slot in range(self.tasks):
            job = threading.Thread(target=self._keep, args=(slot,), name=f"stage job {slot}", daemon=True)
            self._jobs.append(job)
            job.start()
        threading.Thread(target=self._look_for_cores, name="stage cores", daemon=True).start()

    def close(self) -> None:
        """End the jobs."""
        self._closed.set()
        with suppress(OSError):  # a thread that waits for connections does not see that its socket is closed
            socket.create_connection((self._host, self._port), timeout=_END_SECONDS).close()
        if self._accepting.is_alive():
            self._accepting.join(_END_SECONDS)
        self._listener.close()
        with self._lock:
            self._waiting.clear()
            self._open.clear()
        for process in self.processes:
            process.close()
        deadline = time.monotonic() + _END_SECONDS
        for job in self._jobs:
            job.join(max(0.0, deadline - time.monotonic()))
        if any(job.is_alive() for job in self._jobs):
            with suppress(Py4JError, ConnectionError):
                for slot in range(self.tasks):
                    self._spark.cancelJobGroup(self._group(slot))

    def begin(
        self,
        lane: str,
        ranges: tuple[Range, ...],
        given: tuple[StoredMessage, ...],
        held_keys: tuple[str, ...],
        tables: Tables,
        grants: Callable[[StageAttempt, Wanted], bool],
        last: "Process | None",
    ) -> StageAttempt:
        """Have a span staged, by the process that staged the span before it (`last`) unless another one is idle; by the
        first that connects where there is none."""
        request = Request(next(self._ids), lane, ranges, tables, given=given, held_keys=held_keys)
        return self._begun(self._attempt(request, ranges, grants), last)

    def read(self, lane: str, ranges: tuple[Range, ...]) -> StageAttempt:
        """Have the rows of a span sent."""
        request = Request(next(self._ids), lane, ranges, {}, wants_rows=True)
        return self._begun(self._attempt(request, ranges), None)

    def keep(self, lane: str, ranges: tuple[Range, ...], level: int) -> StageAttempt:
        """Have the messages of a span sent as they are archived."""
        return self._begun(self._attempt(Keep(next(self._ids), lane, ranges, level), ranges), None)

    def decode(self, lane: str, messages: Sequence[StoredMessage]) -> StageAttempt:
        """Have the rows of kept messages sent."""
        seconds = self._timeout + SECONDS_A_MESSAGE * len(messages)
        return self._begun(StageAttempt(Decode(next(self._ids), lane, tuple(messages)), seconds), None)

    def tried(self, message: RawMessage) -> str | None:
        """See `app.lane.guarded_read.Trial`."""
        watching = [process for process in self.processes if process.hello.watches]
        return watching[0].tried(StoredMessage.of(message), self._timeout) if watching else None

    def answer(self, attempt: StageAttempt, seconds: float) -> Wanted | Final | Lost | None:
        """The next one that is there within this time, else None. A process that hangs is ended."""
        with suppress(Empty):
            answer = attempt.answers.get(timeout=seconds)
            if answer is attempt.last:
                self._forget(attempt)
            return answer
        if attempt.hangs and attempt.process is not None:
            self._end(attempt.process, f"{attempt.activity} of a span for {time.monotonic() - attempt.since:.0f} s")
        return None

    def _attempt(
        self,
        request: Request | Keep,
        ranges: tuple[Range, ...],
        grants: Callable[[StageAttempt, Wanted], bool] = lambda *_: False,
    ) -> StageAttempt:
        messages = sum(one.end - one.start for one in ranges)
        return StageAttempt(request, self._timeout + SECONDS_A_MESSAGE * messages, grants=grants)

    def _begun(self, attempt: StageAttempt, last: "Process | None") -> StageAttempt:
        with self._lock:
            self._open[attempt.request.id] = attempt
            stagers = self._stagers()
            if stagers:
                min(stagers, key=lambda one: (one.load, one is not last)).begin(attempt)
            else:
                self._waiting.append(attempt)
        return attempt

    def _forget(self, attempt: StageAttempt) -> None:
        with self._lock:
            self._open.pop(attempt.request.id, None)

    def _end(self, process: Process, hang: str) -> None:
        if (watcher := self._watcher(process)) is not None:
            watcher.kill(process, hang)

    def _note_end(self, host: str, ended: Ended) -> None:
        if not self._closed.is_set():
            own = [one for one in self.processes if (one.hello.host, one.hello.pid) == (host, ended.pid)]
            self.on_death(_cause(ended, is_hang=any(one.is_killed for one in own)).value)
        with self._ended:
            self._ends[host, ended.pid] = ended
            while len(self._ends) > _REMEMBERED:
                self._ends.pop(next(iter(self._ends)))
            self._ended.notify_all()

    def _ending(self, process: Process) -> Ended | None:
        """How it has ended; None when nobody says so in time."""
        place = (process.hello.host, process.hello.pid)

        def is_known() -> bool:
            return place in self._ends or self._closed.is_set() or self._watcher(process) is None

        with self._ended:
            self._ended.wait_for(is_known, _REPORT_SECONDS)
            return self._ends.pop(place, None)

    def _watcher(self, process: Process) -> Process | None:
        """The task's own process, which sees how this one ends; None where it is gone, too."""
        wanted = (process.hello.host, process.hello.task)
        watching = (one for one in self.processes if one.hello.watches and not one.is_gone)
        return next((one for one in watching if (one.hello.host, one.hello.pid) == wanted), None)

    def cancel(
        self, attempt: StageAttempt, afterwards: Callable[[], None], lost: Callable[[], None] = lambda: None
    ) -> None:
        """Nobody wants it any more. When its process has done with it `afterwards` is called, by any thread; when its
        process is gone, `lost`."""
        with self._lock:
            self._open.pop(attempt.request.id, None)
            is_waiting = attempt in self._waiting
            if is_waiting:
                self._waiting.remove(attempt)
        if is_waiting:
            afterwards()
        elif attempt.process is not None:
            attempt.process.cancel(attempt, afterwards, lost)

    def _stagers(self) -> list[Process]:
        return [one for one in self._processes if not one.hello.watches and not one.is_gone]

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection = self._listener.accept()
            except OSError as error:
                log.warning("a connection to the stage port failed", because=str(error))
                continue
            if self._closed.is_set():
                connection.close()
                return
            threading.Thread(target=self._serve, args=(connection,), name="stage process", daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        """Of one connection, until it ends."""
        try:
            keep_alive(connection)
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            hello = _DECODER.decode(connection.recv_bytes())
        except Exception as error:  # noqa: BLE001  # whoever does not know the secret, or is no stage process
            log.warning("a connection to the stage port is refused", because=f"{type(error).__name__}: {error}")
            connection.close()
            return
        if not isinstance(hello, Hello):
            connection.close()
            return
        process, begin = Process(hello, connection), time.monotonic()
        with self._lock:
            self._processes.append(process)
            if not hello.watches:
                waiting, self._waiting = self._waiting, []
                for attempt in waiting:
                    process.begin(attempt)
        if self._closed.is_set():
            process.close()
        try:
            process.run(partial(self._note_end, hello.host), self._ending)
        finally:
            with self._lock:
                self._processes.remove(process)
            if hello.watches and not self._closed.is_set():
                self.on_death(TASK_GONE)
            if time.monotonic() - begin > _SETTLED_SECONDS:
                self._settled[hello.slot] = time.monotonic()
            with self._ended:  # what it has not said of a stage process, it says no more
                self._ended.notify_all()
            connection.close()

    def _keep(self, slot: int) -> None:
        pause, longest = _AGAIN_SECONDS
        while not self._closed.is_set():
            begin = time.monotonic()
            try:
                self._spark.setJobGroup(self._group(slot), "stages messages for as long as the lane runs", True)
                task = Task(slot, (self._host, self._port), self._key, self._told)
                self._spark.parallelize([slot], 1).foreachPartition(task)
            except Exception as error:  # noqa: BLE001  # of Spark, or of the bridge to it
                if self._closed.is_set():
                    return
                log.warning("a resident job ended", slot=slot, because=f"{type(error).__name__}: {error}"[:500])
            has_settled = self._settled.get(slot, 0.0) > begin
            pause = _AGAIN_SECONDS[0] if has_settled else min(longest, 2 * pause)
            self._closed.wait(pause)

    def _look_for_cores(self) -> None:
        if self._closed.wait(_PLACED_SECONDS):
            return
        placed = {one.hello.slot for one in self.processes if one.hello.watches}
        if len(placed) < self._least:
            log.warning(
                "stage tasks have no core of the Spark session yet",
                running=len(placed),
                wanted=self.tasks,
                hint="give the session more cores (spark.cores.max, executors, workers), or make stage.tasks smaller",
            )

    @staticmethod
    def _group(slot: int) -> str:
        return f"surelane stage {slot}"


def _cause(ended: Ended, *, is_hang: bool) -> Cause:
    if ended.status == -signal.SIGKILL and is_hang:
        return Cause.HANG
    if ended.status == -signal.SIGKILL and ended.for_memory:
        return Cause.OOM
    return Cause.SIGNAL if ended.status < 0 else Cause.EXIT
