"""Middleware of all routes: rate limits, headers, metrics, and a log without personal data."""

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

from microcell._display import record_html, record_repr
from microcell.errors import OptionError
from microcell.locations.web.metrics import Metrics
from microcell.locations.web.models import error_body

__all__ = ["MAX_BODY", "MIN_TOKEN", "App", "Middleware", "RateLimit", "Settings", "client_of"]

MAX_CLIENTS = 100_000
"""Token buckets kept; beyond that the least recently used one is dropped."""


@dataclass
class RateLimit:
    """Token buckets: ``rate`` requests per second and client, up to ``burst`` at once.

    A rate of 0 means no limit. Memory is bounded; a dropped bucket counts as full. Not thread-safe.

    Examples
    --------
    >>> now = 0.0
    >>> limit = RateLimit(rate=2.0, burst=3, clock=lambda: now)
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
    max_clients: int = MAX_CLIENTS
    _buckets: OrderedDict[str, tuple[float, float]] = field(
        default_factory=OrderedDict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        _check_rate("rate", self.rate)
        if self.burst < 1:
            raise OptionError(
                "burst must be at least 1 request.", code="option.out_of_range", option="burst"
            )

    def __len__(self) -> int:
        return len(self._buckets)

    def wait(self, client: str) -> float:
        """Count a request and return 0 if it is allowed, else the seconds until the next one is."""
        if self.rate == 0.0:
            return 0.0
        now = self.clock()
        left, before = self._buckets.pop(client, (float(self.burst), now))
        left = min(float(self.burst), left + (now - before) * self.rate)
        allowed = left >= 1.0
        self._buckets[client] = (left - 1.0 if allowed else left, now)
        if len(self._buckets) > self.max_clients:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) / self.rate


def _check_rate(name: str, rate: float) -> None:
    if not (isfinite(rate) and rate >= 0):
        raise OptionError(
            f"{name} must be a number of requests per second, or 0 for no limit.",
            code="option.out_of_range",
            option=name,
        )


def client_of(address: str) -> str:
    """Return the identity used for rate limits: the IPv4 address, or the /64 network of IPv6.

    A single IPv6 client usually has a whole /64 network at its disposal.

    Examples
    --------
    >>> client_of("192.0.2.7"), client_of("2001:db8:1:2:3:4:5:6")
    ('192.0.2.7', '2001:db8:1:2::/64')
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


MIN_TOKEN = 16
"""Minimum length of the operator's token."""


@dataclass(frozen=True)
class Settings:
    """Operator's token, rate limits and logging of the web interface.

    Parameters
    ----------
    operator
        Token required for status, rebuild, what-if and metrics.
    open_metrics
        Serve metrics without the token, for services that only an internal network can reach.
    rate, burst
        Requests per second and client in the long run, and at once. A rate of 0 means no limit.
    sign_up_rate, sign_up_burst
        The same for sign-ups, which are expensive and would let one client fill a cell with its own
        devices.
    log_requests
        Log method, route, status and time of each request; no address, pseudonym, query or body.

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

    __repr__ = record_repr
    _repr_html_ = record_html

    def __post_init__(self) -> None:
        token = self.operator
        if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable():
            raise OptionError(
                f"The operator's token must consist of at least {MIN_TOKEN} printable ASCII "
                "characters.",
                code="option.invalid",
                option="operator",
            )
        if token != token.strip():
            raise OptionError(
                "The operator's token must not start or end with a space.",
                code="option.invalid",
                option="operator",
            )
        _check_rate("rate", self.rate)
        _check_rate("sign_up_rate", self.sign_up_rate)


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

MAX_BODY = 4096
"""Bytes; a location takes about fifty."""

BODY_TIMEOUT = 10.0
"""Seconds within which a request body must arrive."""

UNLIMITED = frozenset({"/health"})
"""Paths without a rate limit, because monitoring polls them often."""

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
_NO_STORE = (b"cache-control", b"no-store")

_request_log = logging.getLogger("microcell.locations.requests")
_error_log = logging.getLogger("microcell.locations")


class _RejectedError(Exception):
    """A request that does not reach its route."""

    def __init__(self, status: int, detail: str, *headers: tuple[bytes, bytes]) -> None:
        self.status = status
        self.detail = detail
        self.headers = headers


class Middleware:
    """Middleware that enforces the limits. Failures are reported without repeating what was sent.

    Limits and metrics belong to one event loop.
    """

    def __init__(self, app: App, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics
        self._log_requests = settings.log_requests
        self._limit = RateLimit(settings.rate, settings.burst)
        self._sign_up_limit = RateLimit(settings.sign_up_rate, settings.sign_up_burst)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = perf_counter()
        response = _Response(send)
        try:
            self._check_limits(scope)
            if _has_body(scope):
                receive = _replay(await _read_body(scope, receive), receive)
            await self._app(scope, receive, response)
        except _RejectedError as rejected:
            await _respond(response, rejected.status, rejected.detail, *rejected.headers)
        # The text of an unknown exception may contain a place, and the server would log it.
        except Exception as error:  # noqa: BLE001
            _log_failure(error)
            if not response.status:
                detail = "The service failed. Its log contains the details."
                await _respond(response, 500, detail)
        finally:
            self._record(scope, response.status, perf_counter() - started)

    def _check_limits(self, scope: Message) -> None:
        """Reject clients that exceed their rate limit."""
        if scope["path"] in UNLIMITED:
            return
        client = client_of(scope["client"][0]) if scope.get("client") else ""
        wait = self._limit.wait(client)
        if not wait and scope["method"] == "POST" and scope["path"] == "/devices":
            wait = self._sign_up_limit.wait(client)
        if wait:
            seconds = str(max(1, ceil(wait))).encode()
            raise _RejectedError(
                429,
                "Too many requests from this address. Try again later.",
                (b"retry-after", seconds),
            )

    def _record(self, scope: Message, status: int, seconds: float) -> None:
        """Count and log by the template of the route; a path may contain a pseudonym."""
        route = str(getattr(scope.get("route"), "path", "other"))
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.count(method, route, status, seconds)
        if self._log_requests:
            _request_log.info("%s %s %d %.1f ms", method, route, status, 1000.0 * seconds)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})


class _Response:
    """Sender of a response with the common headers; ``status`` is 0 until it starts."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), *_HEADERS]
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append(_NO_STORE)
            message = {**message, "headers": headers}
        await self._send(message)


def _has_body(scope: Message) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


async def _read_body(scope: Message, receive: Receive) -> bytes:
    """Return the complete body, if it is small and arrives in time."""
    too_large = _RejectedError(
        413, f"The request body is larger than {MAX_BODY} bytes.", (b"connection", b"close")
    )
    for name, value in scope["headers"]:
        if name == b"content-length" and (
            len(value) > 9 or not value.isdigit() or int(value) > MAX_BODY
        ):
            raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise _RejectedError(
                        400, "The connection closed before the request body was complete."
                    )
                body += message.get("body", b"")
                if len(body) > MAX_BODY:
                    raise too_large
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise _RejectedError(
            408, "The request body did not arrive in time.", (b"connection", b"close")
        ) from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI receive channel that delivers a body that was already read."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


async def _respond(send: Send, status: int, detail: str, *headers: tuple[bytes, bytes]) -> None:
    body = json.dumps(error_body(status, detail)).encode()
    fields = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *headers,
    ]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


def _log_failure(error: Exception) -> None:
    """Log the type and the position of a failure, but not its text, which may contain a place."""
    frames = extract_tb(error.__traceback__)[-6:]
    position = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
    _error_log.error("a request failed: %s at %s", type(error).__name__, position)
