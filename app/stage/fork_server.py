"""A fork server: a fork of the driver's process, with everything imported, that forks PySpark's daemon.

    driver          imports -- fork --> fork server ........ accept -- fork --> PySpark's daemon --> Python workers
    JVM             starts `python -m app.stage.daemon` -->  passes its files and environment, and waits for the end

Without it PySpark's daemon imports everything once more: one CPU second while the JVM comes up. Only a session of this
machine alone has one; an executor of a cluster has no driver beside it. It ends with the driver, the daemon with it.
"""

import gc
import os
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from app.process import end_with, ignore_stop_signals, name_process

#: environment variable of the JVM and its children: the name of the abstract socket
VARIABLE = "SURELANE_FORK_SERVER"
_READ_BYTES = 65536
_CREDENTIALS = struct.Struct("3i")


class ForkServer:
    """The constructor opens the socket, so that the JVM can be started before everything is imported."""

    def __init__(self) -> None:
        name = f"surelane-{os.urandom(16).hex()}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(f"\0{name}")
        self._socket.listen()
        os.environ[VARIABLE] = name

    def start(self, work: Callable[[], None]) -> None:
        """Fork the server. Call it once, before this process starts a thread. Each fork of the server does `work`."""
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        if not os.fork():
            try:
                end_with(parent)
                self._serve(work)
            finally:
                os._exit(1)
        self._socket.close()

    def _serve(self, work: Callable[[], None]) -> None:
        name_process("surelane-forks")
        own = self._socket.detach()
        _close_all_but(0, 1, 2, own)
        listening = socket.socket(fileno=own)
        ignore_stop_signals()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps its forks
        gc.freeze()
        server = os.getpid()
        while True:
            connection, _ = listening.accept()
            with connection:
                if _is_own(connection) and not os.fork():
                    listening.close()
                    _become(connection, work, server)


def handed_over(argument: str) -> int | None:
    """Let the fork server do this process' work with `argument`, and wait. Returns the exit status; None: there is no
    fork server."""
    name = os.environ.get(VARIABLE)
    if name is None:
        return None
    os.setpgid(0, 0)  # as the daemon does: signals to the lane's group do not reach it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # so that the JVM can end it
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(f"\0{name}")
            socket.send_fds(connection, [b"+"], [0, 1, 2])
            connection.sendall(b"\0".join([argument.encode(), *(b"%b=%b" % one for one in os.environb.items())]))
            connection.shutdown(socket.SHUT_WR)
        except OSError:  # the fork server has ended, with the driver
            return None
        for number in (0, 1):  # the JVM sees the end of its pipes when the daemon ends
            os.close(number)
        status = connection.recv(1)
    return status[0] if status else 1


def _become(connection: socket.socket, work: Callable[[], None], server: int) -> None:
    """Turn this forked process into the daemon; does not return."""
    own, status = os.getpid(), 1
    try:
        end_with(server)
        _, files, _, _ = socket.recv_fds(connection, 1, 3)
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        argument, *variables = b"".join(iter(lambda: connection.recv(_READ_BYTES), b"")).split(b"\0")
        os.environb.clear()
        os.environb.update(dict(one.split(b"=", 1) for one in variables))
        sys.argv = ["-m", argument.decode()]
        sys.path += [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in sys.path]
        for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115
        gc.enable()
        name_process("surelane-tasks")
        work()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001  # a fork must not return into the server's loop
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
            if os.getpid() == own:  # else this is a fork of the daemon
                connection.sendall(bytes([status & 0xFF]))
        os._exit(status)


def _is_own(connection: socket.socket) -> bool:
    """Whether the client runs as this user: every user can connect to an abstract socket."""
    size = _CREDENTIALS.size
    _, user, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return user == os.geteuid()


def _close_all_but(*kept: int) -> None:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # pathlib is slow to import
        if int(name) not in kept:
            with suppress(OSError):
                os.close(int(name))
