"""What stands before every route: limits, headers, metrics, and a log that tells nothing of anyone."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from math import ceil
from pathlib import Path
from time import perf_counter
from traceback import extract_tb
from typing import Any

from microcell.locations._limits import Limit, client_of
from microcell.locations._metrics import Metrics
from microcell.locations.web._settings import Settings

__all__ = ["LARGEST_BODY", "App", "Shield"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

LARGEST_BODY = 4096
"""Bytes; a location takes some fifty."""

PATIENCE = 10.0
"""Seconds in which a body must have come."""

UNLIMITED = frozenset({"/health"})
"""Whoever watches over the service asks often."""

_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; object-src 'none'; base-uri 'none'; "
     b"form-action 'self'; frame-ancestors 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]  # fmt: skip
_NOT_KEPT = (b"cache-control", b"no-store")

_requests = logging.getLogger("microcell.locations.requests")
_failures = logging.getLogger("microcell.locations")


class _RefusedError(Exception):
    """A request that does not reach its route."""

    def __init__(self, status: int, detail: str, *headers: tuple[bytes, bytes]) -> None:
        self.status, self.detail, self.headers = status, detail, headers


class Shield:
    """The app behind its limits. Whatever fails inside is answered and logged without a word of what was sent.

    The limits and metrics are for one event loop.
    """

    def __init__(self, app: App, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics
        self._log = settings.log_requests
        self._limit = Limit(settings.rate, settings.burst)
        self._sign_ups = Limit(settings.sign_up_rate, settings.sign_up_burst)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        answer = _Answer(send)
        try:
            self._admit(scope)
            if _has_body(scope):
                receive = _once(await _read(scope, receive), receive)
            await self._app(scope, receive, answer)
        except _RefusedError as refused:
            await _respond(answer, refused.status, refused.detail, *refused.headers)
        # Everything: the text of an unknown exception may hold a place, and the server would log it.
        except Exception as error:  # noqa: BLE001
            _tell_failure(error)
            if not answer.status:
                await _respond(answer, 500, "The service failed. Its log tells the operator where.")
        finally:
            self._count(scope, answer.status, perf_counter() - began)

    def _admit(self, scope: Message) -> None:
        """Refuse whoever asks too often."""
        if scope["path"] in UNLIMITED:
            return
        client = client_of(scope["client"][0]) if scope.get("client") else ""
        wait = self._limit.wait(client)
        if not wait and scope["method"] == "POST" and scope["path"] == "/devices":
            wait = self._sign_ups.wait(client)
        if wait:
            after = str(max(1, ceil(wait))).encode()
            raise _RefusedError(429, "Too many requests from this address. Try again later.", (b"retry-after", after))

    def _count(self, scope: Message, status: int, seconds: float) -> None:
        """Count and log by the route's template: a path may hold a pseudonym, or anything."""
        route = str(getattr(scope.get("route"), "path", "other"))
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.count(method, route, status, seconds)
        if self._log:
            _requests.info("%s %s %d %.1f ms", method, route, status, 1000.0 * seconds)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})


class _Answer:
    """Sends the answer on with the headers that every one has; ``status`` is 0 until it begins."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), *_HEADERS]
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append(_NOT_KEPT)
            message = {**message, "headers": headers}
        await self._send(message)


def _has_body(scope: Message) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


async def _read(scope: Message, receive: Receive) -> bytes:
    """The body, whole, if it is small and comes in time."""
    too_large = _RefusedError(413, f"The request is larger than {LARGEST_BODY} bytes.", (b"connection", b"close"))
    for name, value in scope["headers"]:
        if name == b"content-length" and (len(value) > 9 or not value.isdigit() or int(value) > LARGEST_BODY):
            raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise _RefusedError(400, "The request ended before its body did.")
                body += message.get("body", b"")
                if len(body) > LARGEST_BODY:
                    raise too_large
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise _RefusedError(408, "The body of the request did not come in time.", (b"connection", b"close")) from None


def _once(body: bytes, receive: Receive) -> Receive:
    """A body that was read, to be received again."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


async def _respond(send: Send, status: int, detail: str, *headers: tuple[bytes, bytes]) -> None:
    body = json.dumps({"detail": detail}).encode()
    about = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": about})
    await send({"type": "http.response.body", "body": body})


def _tell_failure(error: Exception) -> None:
    """Log what kind of failure it was and where, by file and line; the text of the exception may hold a place."""
    steps = [f"{Path(step.filename).name}:{step.lineno}" for step in extract_tb(error.__traceback__)[-6:]]
    _failures.error("a request failed: %s at %s", type(error).__name__, " > ".join(steps))
