"""The stage processes, seen from the driver: resident Spark jobs of one task each, and the connections they make.

One thread for each job submits it again whenever it ends, while the pool is open: Spark runs a task that was lost with
its executor on another one, and a job whose task has failed too often is submitted anew.
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

from app.dispatch.ahead import Ahead
from app.model.activity import OWN_WORK, Activity
from app.model.death import SECONDS_A_MESSAGE, TASK_GONE, Cause, Death, ending
from app.model.in_flight import InFlight, InFlightView, SpanState, StageProcess
from app.model.message import RawMessage
from app.model.offsets import Offsets, Span
from app.spark.session import ComingSession
from app.stage.receipt import Answer, Doing, Final, Receipt, Wanted
from app.stage.request import Cancel, Decode, Grant, Keep, Message, Range, Request, StoredMessage, Tables, Work
from app.stage.serving import Ended, Hello, Kill, Task, Tried, Try
from app.stage.stager import StageConfig
from app.stage.wire import keep_alive, socket_of

log = structlog.get_logger()

#: bytes of the secret that both ends of a connection prove to have
_KEY_BYTES = 32
#: seconds until a job that has ended is submitted again: the first pause and the longest
_AGAIN_SECONDS = (0.2, 10.0)
#: seconds of connection after which a job has started well: the pause after its failure is the first one again
_SETTLED_SECONDS = 1.0
#: seconds from the start to a warning about tasks that have no core yet
_PLACED_SECONDS = 20.0
#: seconds to wait for the report of a stage process' end
_REPORT_SECONDS = 3.0
#: reports of ends that are kept until they are used
_REMEMBERED = 100
#: seconds for the jobs to end by themselves when the pool is closed
_END_SECONDS = 5.0
_DECODER = msgspec.msgpack.Decoder(Hello | Ended | Tried | Answer)


@dataclass(frozen=True)
class Lost:
    """The process that had the request is gone."""

    #: how it died, and what it was doing with this request
    death: Death


@dataclass(eq=False)
class StageAttempt:
    """One request to one process. `answers` gets its answers; the last one is `Lost` where the process dies."""

    request: Work
    #: seconds that an activity of the process' own may take; longer is a hang
    limit_seconds: float
    answers: "SimpleQueue[Wanted | Final | Lost]" = field(default_factory=SimpleQueue)
    #: called first, by the thread that reads from the process: grants the tables at once, or returns false
    grants: Callable[["StageAttempt", Wanted], bool] = lambda *_: False
    #: of a cancelled request, called instead of giving the last answer: when its process is done, when that is lost
    afterwards: tuple[Callable[[], None], Callable[[], None]] | None = None
    #: None: no process has connected yet
    process: "Process | None" = None
    #: None: it has not begun
    activity: Activity | None = None
    #: monotonic time when the activity began, or the last answer came
    since: float = field(default_factory=time.monotonic)
    #: the last one of `answers`
    last: Final | Lost | None = None

    def grant(self, tables: Tables) -> None:
        """Answer `Wanted`."""
        assert self.process is not None, "it has asked"
        self.process.send(Grant(self.request.id, tables))

    @property
    def hangs(self) -> bool:
        """Whether the process' own work takes too long; time that it waits does not count."""
        return self.activity in OWN_WORK and time.monotonic() - self.since > self.limit_seconds

    def end(self, last: Final | Lost) -> None:
        """Give the last answer."""
        self.last, self.since = last, time.monotonic()
        self.answers.put(last)

    @property
    def size(self) -> int:
        """Bytes of the decoded rows of a staged span, else 0."""
        return self.last.size if isinstance(self.last, Receipt) else 0

    def seen(self) -> InFlight:
        """The attempt as `Pool.in_flight` shows it, now."""
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
    """A connected process: a stage process, or a task's own process, which watches stage processes."""

    def __init__(self, hello: Hello, connection: Connection) -> None:
        self.hello, self._connection = hello, connection
        self._sending = threading.Lock()
        self._attempts: dict[int, StageAttempt] = {}
        self._is_gone = False
        self._trying, self._trials = threading.Lock(), SimpleQueue[Tried]()
        #: for what hang it was killed; None: it was not
        self._hang: str | None = None

    @property
    def is_gone(self) -> bool:
        """Whether its connection has ended."""
        return self._is_gone

    @property
    def load(self) -> int:
        """The number of unanswered requests."""
        return len(self._attempts)

    @property
    def seen(self) -> StageProcess:
        return StageProcess(host=self.hello.host, slot=self.hello.slot, pid=self.hello.pid)

    @property
    def attempts(self) -> Sequence[StageAttempt]:
        """The unanswered ones."""
        return tuple(self._attempts.values())

    @property
    def is_killed(self) -> bool:
        """Whether the pool had it killed, because it hung."""
        return self._hang is not None

    def begin(self, attempt: StageAttempt) -> None:
        """Send the request; where the process is gone the attempt ends with `Lost`."""
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
        with self._sending:
            is_open = self._attempts.get(attempt.request.id) is attempt
            if is_open:
                attempt.afterwards = (afterwards, lost)
        if is_open:
            self.send(Cancel(attempt.request.id))
        else:
            while isinstance(answer := attempt.answers.get(), Wanted):
                pass
            (lost if isinstance(answer, Lost) else afterwards)()

    def send(self, message: Message) -> None:
        """Does not raise where the process is gone: its attempts end with `Lost`."""
        with self._sending, suppress(OSError):
            self._connection.send_bytes(msgspec.msgpack.encode(message))

    def kill(self, other: "Process", hang: str) -> None:
        """Have this task's own process kill its stage process `other`. `hang`: what took too long."""
        other._hang = hang
        with self._sending, suppress(OSError):
            self._connection.send_bytes(msgspec.msgpack.encode(Kill(other.hello.pid)))

    def tried(self, message: StoredMessage, seconds: float) -> str | None:
        """Have this task's own process try the message alone in a new process. Returns what ended that; None where it
        survived, or no report came in time."""
        with self._trying:
            while not self._trials.empty():
                self._trials.get()
            with self._sending, suppress(OSError):
                self._connection.send_bytes(msgspec.msgpack.encode(Try(message, seconds)))
            with suppress(Empty):
                return self._trials.get(timeout=seconds + _REPORT_SECONDS).cause
        return None

    def run(self, ended: Callable[[Ended], None], ending: Callable[["Process"], Ended | None]) -> None:
        """Hand out the process' answers until it is gone. `ended` is called with its reports of other processes' ends;
        `ending` returns how this one ended."""
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
        """Shut the connection down: the process ends when it sees that."""
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
        """The death of the process, for one attempt. `ended`: None where no report of it came."""
        doing = {} if attempt.activity is None else {attempt.request.lane: attempt.activity.value}
        at = datetime.datetime.now(datetime.UTC)
        cause, detail = Cause.SIGNAL, "the exit status is unknown"
        if ended is not None:
            cause = _cause(ended, is_hang=self._hang is not None)
            detail = self._hang if cause is Cause.HANG and self._hang is not None else ending(ended.status)
        return Death(cause=cause, detail=detail, at=at, doing=doing)


class Pool:
    """All stage processes. Opened once for a Spark session; lanes come and go."""

    def __init__(
        self,
        spark: ComingSession,
        config: StageConfig,
        tasks: int,
        timeout_seconds: float,
        *,
        ahead: Ahead | None = None,
        least: int = 1,
    ) -> None:
        """`tasks`: number of stage processes; `timeout_seconds`: for one message, see `guard.message_timeout`; `ahead`:
        how much may be staged ahead, None: nothing; `least`: fewer running tasks are worth a warning."""
        self.ahead = ahead or Ahead(0)
        #: called with the cause of each death of a process, one of few values
        self.on_death: Callable[[str], None] = lambda _: None
        self._timeout, self._least = timeout_seconds, least
        self._spark, self._config, self.tasks = spark, config, tasks
        self._key = secrets.token_bytes(_KEY_BYTES)
        self._host = spark.option("spark.driver.host") or socket.getfqdn()
        self._listener = Listener((spark.option("spark.driver.bindAddress") or self._host, 0))
        self._port = int(self._listener.address[1])
        self._accepting = threading.Thread(target=self._accept, name="stage accept", daemon=True)
        self._ids, self._lock = itertools.count(1), threading.Lock()
        self._processes: list[Process] = []
        #: attempts that began while no process was connected
        self._waiting: list[StageAttempt] = []
        #: by request id: attempts whose last answer was not taken yet
        self._open: dict[int, StageAttempt] = {}
        #: by host and pid: how stage processes have ended
        self._ends: dict[tuple[str, int], Ended] = {}
        self._ended = threading.Condition()
        self._jobs: list[threading.Thread] = []
        #: by slot: monotonic time until which the job's process was connected
        self._settled: dict[int, float] = {}
        self._closed = threading.Event()

    @property
    def processes(self) -> Sequence[Process]:
        """The connected ones."""
        return tuple(self._processes)

    def in_flight(self) -> InFlightView:
        """What is in flight now. Any thread may call it."""
        with self._lock:
            stagers, found = self._stagers(), dict(self._open)
        for process in stagers:
            found |= {one.request.id: one for one in process.attempts}
        spans = tuple(found[number].seen() for number in sorted(found))
        return InFlightView(processes=tuple(sorted(one.seen for one in stagers)), spans=spans)

    def start(self) -> None:
        """Submit the jobs. Returns at once; a process connects after about a second."""
        self._accepting.start()
        for slot in range(self.tasks):
            job = threading.Thread(target=self._keep, args=(slot,), name=f"stage job {slot}", daemon=True)
            self._jobs.append(job)
            job.start()
        threading.Thread(target=self._look_for_cores, name="stage cores", daemon=True).start()

    def close(self) -> None:
        """End the jobs."""
        self._closed.set()
        with suppress(OSError):  # a thread in accept() does not notice that its socket is closed
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
        if self._spark.is_made and any(job.is_alive() for job in self._jobs):
            with suppress(Py4JError, ConnectionError):
                for slot in range(self.tasks):
                    self._spark.get().sparkContext.cancelJobGroup(self._group(slot))

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
        """Have a span staged, by the process with the fewest open requests; where several have as few, by `last`, which
        staged the span before it. Where there is none yet, the first one to connect stages it."""
        request = Request(next(self._ids), lane, ranges, tables, given=given, held_keys=held_keys)
        return self._begun(self._attempt(request, ranges, grants), last)

    def read(self, lane: str, ranges: tuple[Range, ...]) -> StageAttempt:
        """Have the rows of a span sent."""
        request = Request(next(self._ids), lane, ranges, {}, wants_rows=True)
        return self._begun(self._attempt(request, ranges), None)

    def keep(self, lane: str, ranges: tuple[Range, ...], level: int) -> StageAttempt:
        """Have the messages of a span sent in the archive's format."""
        return self._begun(self._attempt(Keep(next(self._ids), lane, ranges, level), ranges), None)

    def decode(self, lane: str, messages: Sequence[StoredMessage]) -> StageAttempt:
        """Have the rows of stored messages sent."""
        seconds = self._timeout + SECONDS_A_MESSAGE * len(messages)
        return self._begun(StageAttempt(Decode(next(self._ids), lane, tuple(messages)), seconds), None)

    def tried(self, message: RawMessage) -> str | None:
        """An `app.lane.guarded_read.Trial`; None also where no task watches stage processes."""
        watching = [process for process in self.processes if process.hello.watches]
        return watching[0].tried(StoredMessage.of(message), self._timeout) if watching else None

    def answer(self, attempt: StageAttempt, seconds: float) -> Wanted | Final | Lost | None:
        """The next answer, None where none comes within this time. Ends a process that hangs."""
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
        """How the process ended; None when no report of it comes in time."""
        place = (process.hello.host, process.hello.pid)

        def is_known() -> bool:
            return place in self._ends or self._closed.is_set() or self._watcher(process) is None

        with self._ended:
            self._ended.wait_for(is_known, _REPORT_SECONDS)
            return self._ends.pop(place, None)

    def _watcher(self, process: Process) -> Process | None:
        """The task's own process, which sees how this one ends; None where that is gone, too."""
        wanted = (process.hello.host, process.hello.task)
        watching = (one for one in self.processes if one.hello.watches and not one.is_gone)
        return next((one for one in watching if (one.hello.host, one.hello.pid) == wanted), None)

    def cancel(
        self, attempt: StageAttempt, afterwards: Callable[[], None], lost: Callable[[], None] = lambda: None
    ) -> None:
        """Cancel an attempt. Some thread calls `afterwards` when its process is done, or `lost` when that is gone."""
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
        """Serve one connection until it ends."""
        try:
            keep_alive(connection)
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            hello = _DECODER.decode(connection.recv_bytes())
        except Exception as error:  # noqa: BLE001  # it does not know the secret, or is no stage process
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
            with self._ended:  # it reports no more ends of stage processes
                self._ended.notify_all()
            connection.close()

    def _keep(self, slot: int) -> None:
        pause, longest = _AGAIN_SECONDS
        while not self._closed.is_set():
            begin = time.monotonic()
            try:
                context = self._spark.get().sparkContext
                if self._closed.is_set():
                    return
                context.setJobGroup(self._group(slot), "stages messages for as long as the lane runs", True)
                task = Task(slot, (self._host, self._port), self._key, self._config)
                context.parallelize([slot], 1).foreachPartition(task)
            except Exception as error:  # noqa: BLE001  # any error of Spark or of Py4J
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
