"""``microcell studio``: the web application for releases without programming."""

import logging
import os
import webbrowser
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from microcell import _extras
from microcell import studio as web
from microcell.cli.console import Messages
from microcell.cli.errors import handle_errors
from microcell.cli.options import Quiet
from microcell.errors import OptionError

if TYPE_CHECKING:
    import socket

__all__ = ["EXAMPLES", "studio"]

EXAMPLES = (
    "microcell studio",
    "microcell studio --projects ~/microcell-projects --port 8765",
    "microcell studio --shared X-Remote-User --host 127.0.0.1 --quota 5 --expiry 30",
)

_GIGABYTE = 2**30


@handle_errors
def studio(
    projects: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for projects. Default: microcell/studio in the user's data folder.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for any free port.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the studio in a browser.")
    ] = True,
    shared: Annotated[
        str | None,
        typer.Option(
            metavar="HEADER",
            help="Serve several people behind a proxy that authenticates them and names the user "
            "in this header. The proxy must strip this header from incoming requests.",
            show_default=False,
        ),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="With --shared: address of the proxy, the only one that is answered; repeatable. "
            "Default: this machine.",
            show_default=False,
        ),
    ] = None,
    quota: Annotated[
        float, typer.Option(min=0, help="With --shared: gigabytes per person; 0 for no limit.")
    ] = 5.0,
    expiry: Annotated[
        int,
        typer.Option(
            min=0, help="With --shared: days after which unchanged projects are deleted; 0: never."
        ),
    ] = 30,
    memory: Annotated[
        float,
        typer.Option(min=0, help="Gigabytes of memory per process; 0 for no limit."),
    ] = 0.0,
    quiet: Quiet = False,
) -> None:
    """Open the studio, a web application on this machine, in a browser."""
    for package in ("fastapi", "uvicorn"):
        if not _extras.is_installed(package):
            raise _extras.missing_extra("The studio", package, extra="studio")
    messages = Messages(quiet)
    is_local = host in ("127.0.0.1", "::1", "localhost")
    if not is_local and shared is None:
        raise OptionError(
            "The studio shows original data, so without --shared it only listens on this machine. "
            "Leave --host out, or use an authenticating proxy and --shared.",
            code="option.conflict",
            option="host",
        )
    listener = web.listen_on(host, port)
    with closing(listener):
        access = web.Access(
            user_header=shared,
            proxies=frozenset(proxy or ("127.0.0.1", "::1")),
            hosts=frozenset() if shared else _hosts(listener),
        )
        settings = web.Settings(
            folder=projects or _data_folder(),
            shared=shared is not None,
            quota=int(quota * _GIGABYTE) if shared else 0,
            expiry=expiry if shared else 0,
            memory=int(memory * _GIGABYTE),
        )
        logging.basicConfig(format="%(message)s")
        url = _address(listener) + ("" if shared else f"?token={access.token}")

        def ready() -> None:
            messages.info(f"The studio is at {url}")
            messages.info("Press Ctrl-C to stop it; projects are saved.")
            if browser and shared is None:
                webbrowser.open(url)

        web.serve(web.create_studio(settings, access), listener, ready=ready)
    messages.info("stopped")


def _data_folder() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".local" / "share") / "microcell" / "studio"


def _address(listener: "socket.socket") -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def _hosts(listener: "socket.socket") -> frozenset[str]:
    """Return the Host headers of requests that come from this machine's browser."""
    port = listener.getsockname()[1]
    return frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))
