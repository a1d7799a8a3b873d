"""The uvicorn server that runs a web application: the location service or the studio."""

import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import current_thread, main_thread

import uvicorn

from microcell.errors import OptionError

__all__ = ["listen_on", "make_server", "serve"]

App = Callable[..., Awaitable[None]]
"""An ASGI application."""

SHUTDOWN_SECONDS = 10
"""Seconds that open requests get when the service stops."""

SWITCH_INTERVAL = 0.0005
"""Thread switch interval in seconds; Python's default of 5 ms would slow down every look-up."""


def listen_on(host: str, port: int) -> socket.socket:
    """Return a listening socket. Call it first, so that a port in use is reported immediately."""
    if not 0 <= port <= 65535:
        raise OptionError(
            f"--port must be between 0 and 65535, not {port}.",
            code="option.out_of_range",
            option="port",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only on sockets that name their protocol. Otherwise each
    # response, which is written in two parts, would take 40 ms.
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
    """Serve until SIGTERM or Ctrl-C; open requests are completed first.

    Parameters
    ----------
    app
        An ASGI application.
    listener
        Socket from :func:`listen_on`; it is closed at the end.
    proxies
        Addresses of proxies whose X-Forwarded-For header is trusted. Anyone else could forge it to
        evade the rate limits.
    ready
        Called when the server accepts requests and signals.
    """
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        make_server(app, proxies=proxies, ready=ready).run(sockets=[listener])
    finally:
        sys.setswitchinterval(before)
        listener.close()


def make_server(
    app: App, *, proxies: Sequence[str] = (), ready: Callable[[], None] = lambda: None
) -> uvicorn.Server:
    """Return a server that neither logs requests nor identifies itself."""
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return _Server(config, ready)


class _Server(uvicorn.Server):
    """Server that reports when it is ready, and does not raise the signal again at the end."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start accepting requests."""
        await super().startup(sockets=sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Shut the server down on SIGINT and SIGTERM while the block runs."""
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
