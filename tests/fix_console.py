"""The console of a lane under test, as a client of HTTP meets it: in this process, or as `surelane console`."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from app.console.logins import LoginRules
from app.console.recovery_places import RecoveryPlaces
from app.console.served_lanes import ServedLanes
from app.console.verb import TOKEN_VARIABLE
from app.console.web_app import Console, ConsoleOptions
from tests.waiting import eventually
from tools.devstack.ports import LOOPBACK, remembered_port

TOKEN = "a-token-of-the-tests-0123456789"
WHO = "alice"
ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 60.0
#: the slowest answer starts Spark
ANSWER_SECONDS = 120.0
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


@dataclass(frozen=True)
class Answer:
    """What the console answers."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """A client without a browser, which keeps a session's cookie."""

    port: int
    cookie: str | None = None
    #: of the session's pages
    csrf: str | None = None

    @property
    def origin(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def get(self, path: str, **headers: str) -> Answer:
        return self._ask("GET", path, None, headers)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Answer:
        """A form as a browser sends it from the console's own page; `headers` come on top, "" leaves one out."""
        own = {"Origin": self.origin, "Sec-Fetch-Site": "same-origin"}
        body = urllib.parse.urlencode(fields).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._ask("POST", path, body, kind | own | headers)

    def act(self, path: str, **fields: str) -> Answer:
        """A form with the session's mark."""
        return self.post(path, {"csrf": self.csrf or "", **fields})

    def log_in(self, who: str = WHO, token: str = TOKEN) -> Answer:
        answer = self.post("/login", {"who": who, "token": token})
        if answer.status == 303:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
            found = _CSRF.search(self.get("/").text)
            assert found, "a page has the session's mark"
            self.csrf = found[1]
        return answer

    def streamed(self, path: str, text: str) -> str:
        """What an open page of a console without a login shows, as soon as `text` is in it."""
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=ANSWER_SECONDS)
        until, content = time.monotonic() + ANSWER_SECONDS, ""
        try:
            connection.request("GET", f"/live{path}")
            answer, lines = connection.getresponse(), list[str]()
            while text not in content:
                assert time.monotonic() < until, f"no {text!r} in {content}"
                line = answer.readline().decode()
                assert line, f"the stream ended without {text!r}"
                if line.startswith("data: "):
                    lines.append(line.removeprefix("data: "))
                elif lines:
                    content, lines = "".join(lines), []
            return content
        finally:
            connection.close()

    def _ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=ANSWER_SECONDS)
        cookie = {"Cookie": self.cookie} if self.cookie else {}
        sent = {name.replace("_", "-"): value for name, value in (cookie | headers).items() if value}
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        finally:
            connection.close()


@dataclass
class Consoles:
    """`console()` serves the configuration of the folder in this process; `process()` is the verb."""

    folder: Path
    made: list[Callable[[], None]] = field(default_factory=list)

    def __call__(
        self,
        *files: Path,
        login: LoginRules | None = None,
        allow_actions: bool = False,
        logs: Sequence[Path] = (),
        recover_to: Sequence[str] = (),
    ) -> Client:
        """`files`: configurations, surelane.yaml if there are none."""
        rules = login if login is not None else LoginRules(token=TOKEN) if allow_actions else LoginRules()
        lanes = ServedLanes(files or [None], None, logs)
        options = ConsoleOptions(
            lanes=lanes,
            login=rules,
            allow_actions=allow_actions,
            places=RecoveryPlaces.of(recover_to),
            hosts={LOOPBACK},
        )
        config = uvicorn.Config(
            Console(options).app(), log_config=None, access_log=False, timeout_graceful_shutdown=1, proxy_headers=False
        )
        server = uvicorn.Server(config)
        listening = socket.create_server((LOOPBACK, 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="console")
        thread.start()

        def stop() -> None:
            server.should_exit = True
            thread.join(20)
            listening.close()
            assert not thread.is_alive(), "the console ends"

        self.made.append(stop)
        eventually(lambda: server.started, START_SECONDS, "the console to start")
        return Client(listening.getsockname()[1])

    def process(self, *words: str, token: str | None = None) -> tuple[Client, "subprocess.Popen[bytes]"]:
        """A process of its own, in the folder of surelane.yaml."""
        port = remembered_port(self.folder / f"console-port-{len(self.made)}")
        command = [sys.executable, "-m", "app.cli", "console", "--port", str(port), *words]
        environment = os.environ | {"PYTHONPATH": str(ROOT)} | ({TOKEN_VARIABLE: token} if token else {})
        log = self.folder / f"console-{len(self.made)}.log"
        with log.open("wb") as file:
            started = subprocess.Popen(command, env=environment, cwd=self.folder, stdout=file, stderr=file)

        def stop() -> None:
            started.send_signal(signal.SIGKILL)
            started.wait(20)

        self.made.append(stop)
        client = Client(port)

        def answers() -> bool:
            assert started.poll() is None, log.read_text()
            try:
                return client.get("/healthz").status == 200
            except OSError:
                return False

        eventually(answers, START_SECONDS, f"the console to answer: {log}")
        return client, started


@pytest.fixture
def consoles(tmp_path: Path) -> Iterator[Consoles]:
    """`consoles()` serves surelane.yaml of the test's folder; `consoles(allow_actions=True)` with actions, by TOKEN."""
    found = Consoles(tmp_path)
    yield found
    for stop in reversed(found.made):
        stop()
