"""The server that runs the app, and how it stops."""

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import current_thread, main_thread

import uvicorn

from microcell.errors import OptionError
from microcell.locations.web.shield import App

__all__ = ["listen_on", "make_server", "serve"]

GRACE = 10
"""Seconds that requests under way have when the service is stopped."""

SWITCH = 0.0005
"""Seconds after which a thread that computes lets look-ups run: Python's own 5 ms would be felt in each of them."""


def listen_on(host: str, port: int) -> socket.socket:
    """A socket that listens, taken before anything else is begun: a port in use is then told at once."""
    if not 0 <= port <= 65535:
        raise OptionError(f"--port must be from 0 to 65535, not {port}.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named: asyncio sends at once, without waiting for more, only on sockets that name it. Otherwise
    # each answer, which is written in two parts, takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except BaseException:
        listener.close()
        raise
    return listener


def serve(
    app: App,
    listener: socket.socket,
    *,
    proxies: Sequence[str] = (),
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or Ctrl-C; requests under way are answered first.

    Parameters
    ----------
    app
        As :func:`create_app` makes it.
    listener
        As :func:`listen_on` makes it; it is closed at the end.
    proxies
        Addresses of proxies whose word about the client's address is taken. Others could name any address, and so
        escape the limits.
    ready
        Called when requests are answered, and signals heard.
    """
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        make_server(app, proxies=proxies, ready=ready).run(sockets=[listener])
    finally:
        sys.setswitchinterval(before)
        listener.close()


def make_server(
    app: App, *, proxies: Sequence[str] = (), ready: Callable[[], None] = lambda: None
) -> uvicorn.Server:
    """The server itself: it logs nothing of requests and says nothing of itself."""
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=GRACE,
    )
    return _Server(config, ready)


class _Server(uvicorn.Server):
    """Tells when it is ready, and ends quietly when it is told to: the signal is not raised again after all is done."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets=sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let signals end the server while the block runs."""
        if current_thread() is not main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self.handle_exit)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
