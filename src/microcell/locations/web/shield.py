"""What stands before every route: limits, headers, metrics, and a log that tells nothing of anyone."""

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from math import ceil, isfinite
from pathlib import Path
from time import monotonic, perf_counter
from traceback import extract_tb
from typing import Any

from microcell.errors import OptionError
from microcell.locations.web.metrics import Metrics

__all__ = ["LARGEST_BODY", "LEAST_TOKEN", "App", "Limit", "Settings", "Shield", "client_of"]

MOST_CLIENTS = 100_000
"""So many buckets are kept; beyond, that of whoever asked least recently is forgotten."""


@dataclass
class Limit:
    """At most ``rate`` requests a second from each client in the long run, and ``burst`` at once; 0 is no limit.

    Memory is bounded: a bucket that is forgotten counts as full. Not for several threads at once.

    Examples
    --------
    >>> now = 0.0
    >>> limit = Limit(rate=2.0, burst=3, clock=lambda: now)
    >>> [limit.wait("a") for _ in range(4)]
    [0.0, 0.0, 0.0, 0.5]
    >>> limit.wait("b")
    0.0
    >>> now = 0.5
    >>> limit.wait("a")
    0.0
    """

    rate: float
    burst: int = 1
    clock: Callable[[], float] = monotonic
    most: int = MOST_CLIENTS
    _buckets: OrderedDict[str, tuple[float, float]] = field(
        default_factory=OrderedDict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        if not (isfinite(self.rate) and self.rate >= 0):
            raise OptionError("A rate must be a number of requests a second, or 0 for no limit.")
        if self.burst < 1:
            raise OptionError("A burst must be 1 request or more.")

    def __len__(self) -> int:
        return len(self._buckets)

    def wait(self, client: str) -> float:
        """0 if the client may ask now, which is counted; else the seconds after which it may."""
        if self.rate == 0.0:
            return 0.0
        now = self.clock()
        left, before = self._buckets.pop(client, (float(self.burst), now))
        left = min(float(self.burst), left + (now - before) * self.rate)
        allowed = left >= 1.0
        self._buckets[client] = (left - 1.0 if allowed else left, now)
        if len(self._buckets) > self.most:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) / self.rate


def client_of(address: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 network of an IPv6 one, which has 2^64 addresses to use.

    Examples
    --------
    >>> client_of("192.0.2.7"), client_of("2001:db8:1:2:3:4:5:6"), client_of("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8:1:2::/64', '192.0.2.7')
    """
    if ":" not in address:
        return address
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"


LEAST_TOKEN = 16
"""Characters of the operator's token."""


@dataclass(frozen=True)
class Settings:
    """The operator's token, and how much a client may ask for.

    Parameters
    ----------
    operator
        The token for rebuilding, the status, what-if and metrics.
    open_metrics
        True to show metrics without the token, where an internal network alone reaches the service.
    rate, burst
        Requests a second from one address in the long run, and at once; a rate of 0 is no limit.
    sign_up_rate, sign_up_burst
        The same for sign-ups, which cost most and would let one client fill a cell with devices of its own.
    log_requests
        True to log a line a request: method, route, status and time; no address, pseudonym, query or content.

    Examples
    --------
    >>> Settings(operator="correct horse battery staple").rate
    20.0
    """

    operator: str = field(repr=False)
    open_metrics: bool = False
    rate: float = 20.0
    burst: int = 100
    sign_up_rate: float = 0.2
    sign_up_burst: int = 20
    log_requests: bool = True

    def __post_init__(self) -> None:
        if (
            len(self.operator) < LEAST_TOKEN
            or not self.operator.isascii()
            or not self.operator.isprintable()
        ):
            raise OptionError(
                f"The operator's token must have {LEAST_TOKEN} or more characters of plain ASCII, hard to guess."
            )
        if not all(isfinite(rate) and rate >= 0 for rate in (self.rate, self.sign_up_rate)):
            raise OptionError("A rate must be a number of requests a second, or 0 for no limit.")
        if any(letter.isspace() for letter in (self.operator[0], self.operator[-1])):
            raise OptionError("The operator's token must not begin or end with a blank.")


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
            raise _RefusedError(
                429,
                "Too many requests from this address. Try again later.",
                (b"retry-after", after),
            )

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
    too_large = _RefusedError(
        413, f"The request is larger than {LARGEST_BODY} bytes.", (b"connection", b"close")
    )
    for name, value in scope["headers"]:
        if name == b"content-length" and (
            len(value) > 9 or not value.isdigit() or int(value) > LARGEST_BODY
        ):
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
        raise _RefusedError(
            408, "The body of the request did not come in time.", (b"connection", b"close")
        ) from None


def _once(body: bytes, receive: Receive) -> Receive:
    """A body that was read, to be received again."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


async def _respond(send: Send, status: int, detail: str, *headers: tuple[bytes, bytes]) -> None:
    body = json.dumps({"detail": detail}).encode()
    about = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": about})
    await send({"type": "http.response.body", "body": body})


def _tell_failure(error: Exception) -> None:
    """Log what kind of failure it was and where, by file and line; the text of the exception may hold a place."""
    steps = [
        f"{Path(step.filename).name}:{step.lineno}" for step in extract_tb(error.__traceback__)[-6:]
    ]
    _failures.error("a request failed: %s at %s", type(error).__name__, " > ".join(steps))
