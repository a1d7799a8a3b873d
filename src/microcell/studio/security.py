"""Who may use the studio: a one-time token, a cookie, and checks of every request.

Alone on a machine, the address printed at the start contains a token that can be used once, in
exchange for a cookie. Shared by several people, the studio runs behind a proxy that authenticates
them and names the user in a header; each has a workspace of their own.
"""

import hashlib
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from traceback import extract_tb
from typing import Any
from urllib.parse import parse_qs, urlsplit

from microcell._display import short_repr

__all__ = ["CSRF_HEADER", "Access", "Guard", "cookie_name", "gives_token", "user_folder"]

CSRF_HEADER = "x-csrf-token"
LOOPBACK = frozenset({"127.0.0.1", "::1"})

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
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

_log = logging.getLogger("microcell.studio")


@dataclass(repr=False)
class Access:
    """The secrets of a running studio.

    ``token`` can be exchanged for the cookie once. ``user_header`` is the header in which a proxy
    names the user, if the studio is shared, and ``proxies`` are the addresses it may come from.
    ``hosts`` are the Host headers that are answered; all if empty.
    """

    token: str = field(default_factory=lambda: token_urlsafe(24))
    session: str = field(default_factory=lambda: token_urlsafe(32))
    secret: str = field(default_factory=lambda: token_urlsafe(32))
    user_header: str | None = None
    proxies: frozenset[str] = LOOPBACK
    hosts: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return short_repr(self)

    def redeem(self, token: str) -> bool:
        """Return whether the token is right, which works once."""
        right = bool(self.token) and compare_digest(token.encode(), self.token.encode())
        if right:
            self.token = ""
        return right

    def csrf_token(self, user: str) -> str:
        """Return the token that a page of this user must send with every change."""
        key = f"{self.secret}{self.session}".encode()
        return hmac.new(key, user.encode(), hashlib.sha256).hexdigest()


def user_folder(folder: Path, user: str) -> Path:
    """Return the workspace of a user. Its name reveals nothing and cannot lead elsewhere."""
    return folder / hashlib.blake2b(user.encode(), digest_size=16).hexdigest()


class Guard:
    """Middleware that checks the Host header, the session and the CSRF token of every request."""

    def __init__(self, app: App, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def respond(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": _with_headers(message.get("headers", ()))}
            await send(message)

        try:
            refusal = self._check(scope)
            if refusal is not None:
                await _refuse(respond, *refusal)
            else:
                await self._app(scope, receive, respond)
        # The text of an unknown exception may contain a value, and the server would log it.
        except Exception as error:  # noqa: BLE001
            frames = extract_tb(error.__traceback__)[-4:]
            place = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
            _log.error("a request failed: %s at %s", type(error).__name__, place)
            if not started:
                await _refuse(respond, 500, "service.failed", "The studio failed. See its log.")

    def _check(self, scope: Message) -> tuple[int, str, str] | None:
        """Return why a request is refused: status, code and message; None if it is not."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in
                   reversed(scope["headers"])}  # fmt: skip
        host = headers.get("host", "")
        if self._access.hosts and host not in self._access.hosts:
            # Another site could have pointed its own name to this machine (DNS rebinding).
            return 421, "service.bad_request", "The studio does not answer under this address."
        origin = headers.get("origin")
        if origin not in (None, "null") and urlsplit(origin or "").netloc != host:
            return 403, "service.unauthorized", "The request comes from another site."
        user = self._user(scope, headers)
        if user is None:
            return (
                401,
                "service.unauthorized",
                "Open the studio by the address that it printed when it started. That address "
                "works once; restart the studio for a new one.",
            )
        scope["state"] = {**scope.get("state", {}), "user": user}
        if scope["method"] in _SAFE_METHODS:
            return None
        token = headers.get(CSRF_HEADER, "")
        if not compare_digest(token.encode(), self._access.csrf_token(user).encode()):
            return 403, "service.unauthorized", "The page is out of date. Reload it."
        return None

    def _user(self, scope: Message, headers: dict[str, str]) -> str | None:
        """Return the user of a request: "" without a proxy, None if access is denied."""
        access = self._access
        if access.user_header is not None:
            return _named_user(scope, access.user_header.lower(), access.proxies)
        if scope["path"].startswith("/static/") or gives_token(scope):
            return ""
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(cookie_name(scope))
        except CookieError:
            cookie = None
        given = "" if cookie is None else cookie.value
        return "" if compare_digest(given.encode(), access.session.encode()) else None


def gives_token(scope: Message) -> bool:
    """Return whether the request is one to exchange a token, and nothing else, for the cookie."""
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    return scope["path"] == "/" and scope["method"] == "GET" and len(query.get("token", ())) == 1


def _named_user(scope: Message, name: str, proxies: frozenset[str]) -> str | None:
    """Return the user whom the proxy names."""
    if (scope.get("client") or ("",))[0] not in proxies:
        return None
    named = [value for key, value in scope["headers"] if key.decode("latin-1").lower() == name]
    # Twice: the proxy has added its own header to a forged one.
    return named[0].decode("latin-1") or None if len(named) == 1 else None


def cookie_name(scope: Message) -> str:
    """Return the name of the cookie. Browsers send cookies to all ports of a machine."""
    server = scope.get("server") or ("", 0)
    return f"microcell_studio_{server[1]}"


def _with_headers(headers: Any) -> list[tuple[bytes, bytes]]:
    present = {name.lower() for name, _ in headers}
    out = [*headers, *(item for item in _HEADERS if item[0] not in present)]
    if b"cache-control" not in present:
        out.append((b"cache-control", b"no-store"))
    return out


async def _refuse(send: Send, status: int, code: str, message: str) -> None:
    body = json.dumps({"error": {"code": code, "message": message, "details": {}}}).encode()
    fields = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
