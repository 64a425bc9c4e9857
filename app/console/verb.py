"""`surelane console`: serves the pages of the console until SIGTERM."""

import importlib.util
import ipaddress
import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from app import logs
from app.db.engine import only_read
from app.errors import EnvironmentMissing

if TYPE_CHECKING:
    from app.console.logins import LoginRules
    from app.console.web_app import ConsoleOptions

log_of = structlog.get_logger()
app = typer.Typer(add_completion=False)

DEFAULT_PORT = 9180
TOKEN_VARIABLE = "SURELANE_CONSOLE_TOKEN"
#: places, one after the other: a server's URL may have a password
PLACES_VARIABLE = "SURELANE_CONSOLE_RECOVER_TO"
#: libraries that the lock file of the console has
_LIBRARIES = ("starlette", "uvicorn", "jinja2")
#: seconds for requests in progress at the end; streams are cut
_GRACE_SECONDS = 2


@app.command(
    epilog="Examples:\n\n  surelane console\n\n  surelane console --folder lanes --log surelane.log\n\n"
    "  SURELANE_CONSOLE_TOKEN=... surelane console --allow-actions",
)
def console(
    config: Annotated[
        list[Path] | None,
        typer.Option(
            "--config",
            "-c",
            envvar="SURELANE_CONFIG",
            help="A lane's configuration; may be given again.",
            show_default="surelane.yaml",
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="All *.yaml and *.yml in it, a lane each.", exists=True, file_okay=False),
    ] = None,
    log: Annotated[
        list[Path] | None,
        typer.Option("--log", help="A file with the lanes' log, for the steps of epochs; may be given again."),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port.")] = DEFAULT_PORT,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; another one needs a login.")] = "127.0.0.1",
    host_names: Annotated[
        list[str] | None,
        typer.Option("--host-name", metavar="NAME", help="A name by which browsers reach it; may be given again."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="A file with the token of the login.", show_default=f"${TOKEN_VARIABLE}"),
    ] = None,
    user_header: Annotated[
        str | None, typer.Option("--user-header", metavar="NAME", help="A proxy names the person in this header.")
    ] = None,
    proxies: Annotated[
        list[str] | None,
        typer.Option("--proxy", metavar="ADDRESS", help="Where that proxy is.", show_default="127.0.0.1"),
    ] = None,
    allow_actions: Annotated[
        bool,
        typer.Option(
            "--allow-actions",
            envvar="SURELANE_CONSOLE_ALLOW_ACTIONS",
            help="Answer, release, discard and recover through the pages; needs a login.",
        ),
    ] = False,
    recover_to: Annotated[
        list[str] | None,
        typer.Option(
            "--recover-to",
            envvar=PLACES_VARIABLE,
            metavar="PLACE",
            help="Where a page may restore to, under a new name: URL of a server, a folder, or `rds`; once for each.",
        ),
    ] = None,
) -> None:
    """Serve web pages of all that the other verbs show, for lanes that run and lanes that do not.

    A process of its own, which needs only what the other verbs need. Listens on this machine and changes nothing,
    unless it is asked to. Reads only while a page is open.
    """
    _check_libraries()
    from app.console.recovery_places import RecoveryPlaces  # the libraries are there from here on
    from app.console.served_lanes import ServedLanes
    from app.console.web_app import ConsoleOptions

    files = [*(config or ())] or ([] if folder is not None else [None])
    rules = _rules(token_file, user_header, proxies)
    _check_login(host, required=rules.required, allow_actions=allow_actions)
    if recover_to and not allow_actions:
        raise typer.BadParameter("--recover-to belongs to --allow-actions")
    places = RecoveryPlaces.of(recover_to or ())
    if not allow_actions:
        only_read()
    lanes = ServedLanes(files, folder, log or ())
    logs.configure("-")
    shown = f"[{host}]" if ":" in host else host
    known = {"localhost", "127.0.0.1", "[::1]", shown.lower(), *(name.lower() for name in host_names or ())}
    options = ConsoleOptions(lanes=lanes, login=rules, allow_actions=allow_actions, places=places, hosts=known)
    _serve(options, host, port, shown)


def _check_libraries() -> None:
    """Raises EnvironmentMissing without the libraries, which no lane needs."""
    missing = [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        raise EnvironmentMissing(
            f"the console needs {', '.join(missing)}, which a lane does not: not installed here",
            hint="pip install --require-hashes -r requirements-console.lock",
        )


def _rules(token_file: Path | None, user_header: str | None, proxies: list[str] | None) -> "LoginRules":
    from app.console.logins import MIN_TOKEN_CHARACTERS, LoginRules

    if proxies and user_header is None:
        raise typer.BadParameter("--proxy belongs to --user-header")
    token = os.environ.get(TOKEN_VARIABLE) or None
    if token_file is not None:
        try:
            token = token_file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise EnvironmentMissing(f"the token cannot be read: {error}", hint="see --token-file") from None
    if token is not None and user_header is not None:
        raise typer.BadParameter(
            f"one kind of login: a token ({TOKEN_VARIABLE} or --token-file), or a proxy's header (--user-header)"
        )
    if token is not None and len(token) < MIN_TOKEN_CHARACTERS:
        raise typer.BadParameter(f"the token has fewer than {MIN_TOKEN_CHARACTERS} characters: openssl rand -hex 24")
    return LoginRules(token=token, user_header=user_header, proxies=tuple(proxies or ("127.0.0.1",)))


def _check_login(host: str, *, required: bool, allow_actions: bool) -> None:
    """Without a login the console is for this machine, and changes nothing."""
    if required:
        return
    how = f"give it a token ({TOKEN_VARIABLE} or --token-file), or name a proxy's header (--user-header)"
    if allow_actions:
        raise typer.BadParameter(f"--allow-actions needs a login: {how}")
    if not _is_loopback(host):
        raise typer.BadParameter(f"--host {host} is reached from other machines, and needs a login: {how}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _serve(options: "ConsoleOptions", host: str, port: int, shown: str) -> None:
    import uvicorn

    from app.console.web_app import Console

    config = uvicorn.Config(
        Console(options).app(),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise EnvironmentMissing(
            f"cannot listen on {shown}:{port}: {error.strerror}", hint="choose another --port"
        ) from None
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # what is left of a signal that the server has obeyed
    names = [one.name for one in options.lanes]
    actions = "actions by login" if options.allow_actions else "read only"
    log_of.info("console", url=f"http://{shown}:{port}/", lanes=names, mode=actions)
    with listening:
        uvicorn.Server(config).run(sockets=[listening])
