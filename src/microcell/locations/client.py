"""A client of the service, for devices and for whoever runs it."""

from collections.abc import Callable, Mapping
from time import sleep
from types import TracebackType
from typing import Any

import httpx

from microcell.errors import (
    DataError,
    OptionError,
    ServiceError,
    TooFewRecordsError,
    UnknownDeviceError,
)
from microcell.locations.records import Account, Place, Status, WhatIf

__all__ = ["Client"]

LONGEST_WAIT = 60.0
"""Seconds; a service that asks for more is not waited for."""


class Client:
    """Speaks to a service that runs elsewhere; its methods are those of the anonymizer itself.

    Errors never repeat a location or a token. May be used by several threads at once.

    Parameters
    ----------
    url
        Where the service is, for example ``https://locations.example.org``.
    operator
        The operator's token, for :meth:`status`, :meth:`rebuild` and :meth:`what_if`.
    timeout
        Seconds to wait for an answer.
    retries
        How often to ask again, after the time that the service names, when it has too many requests.

    Examples
    --------
    >>> with Client("http://localhost:8000") as client:  # doctest: +SKIP
    ...     account = client.sign_up(41.3874, 2.1686)
    ...     client.look_up(account.pseudonym, account.token)
    Place(latitude=41.3921, longitude=2.1652)
    """

    def __init__(
        self,
        url: str,
        *,
        operator: str | None = None,
        timeout: float = 30.0,
        retries: int = 3,
        transport: httpx.BaseTransport | None = None,
        pause: Callable[[float], None] = sleep,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise OptionError("The url of the service must begin with http:// or https://.")
        self._operator, self._retries, self._pause = operator, retries, pause
        self._http = httpx.Client(base_url=url, timeout=timeout, transport=transport)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def sign_up(self, latitude: float, longitude: float) -> Account:
        """A new account: keep its pseudonym and token, nobody can tell them again. Its location is None to wait."""
        told = self._ask("POST", "/devices", content=_place(latitude, longitude))
        return Account(told["pseudonym"], told["token"], _usable(told))

    def look_up(self, pseudonym: str, token: str) -> Place | None:
        """The location to use, or None to wait."""
        return _usable(self._ask("GET", _path(pseudonym, "/location"), token=token))

    def move(self, pseudonym: str, token: str, latitude: float, longitude: float) -> Place | None:
        """The location to use from now on, for a device that has moved."""
        return _usable(
            self._ask(
                "PUT",
                _path(pseudonym, "/location"),
                token=token,
                content=_place(latitude, longitude),
            )
        )

    def cancel(self, pseudonym: str, token: str) -> None:
        """Nothing; the service has forgotten the device."""
        self._ask("DELETE", _path(pseudonym), token=token)

    def cells(self) -> dict[str, Any]:
        """The cells as GeoJSON, with what the guarantee is worth now."""
        return self._ask("GET", "/cells")

    def healthy(self) -> bool:
        """Whether the service answers."""
        try:
            return bool(self._ask("GET", "/health").get("status") == "ok")
        except ServiceError:
            return False

    def status(self) -> Status:
        """What the operator may know."""
        return Status(**self._ask("GET", "/status", token=self._operator_token()))

    def rebuild(self) -> None:
        """Nothing; the service rebuilds its cells in the background."""
        self._ask("POST", "/rebuild", token=self._operator_token())

    def what_if(self, k: int) -> WhatIf:
        """How far devices would be from the locations they use, with another k."""
        told = self._ask("GET", "/what-if", token=self._operator_token(), params={"k": k})
        pairs = tuple((float(level), float(value)) for level, value in told["quantiles"])
        return WhatIf(
            **{
                **told,
                "quantiles": pairs,
                "edges": tuple(told["edges"]),
                "counts": tuple(told["counts"]),
            }
        )

    def _operator_token(self) -> str:
        if self._operator is None:
            raise OptionError("This needs the operator's token. Give it as operator=...")
        return self._operator

    def _ask(
        self, method: str, path: str, *, token: str | None = None, **content: Any
    ) -> dict[str, Any]:
        """What the service answers; patient if it has too many requests."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        sent = {name: value for name, value in content.items() if name == "params"}
        if "content" in content:
            sent["json"] = content["content"]
        for left in range(self._retries, -1, -1):
            try:
                response = self._http.request(method, path, headers=headers, **sent)
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
                # Its text may hold the request, and so the pseudonym.
                raise ServiceError(
                    f"The service cannot be reached ({type(error).__name__})."
                ) from None
            wait = _wait(response)
            if wait is None or left == 0 or wait > LONGEST_WAIT:
                break
            self._pause(wait)
        return _read(response)


def _path(pseudonym: str, rest: str = "") -> str:
    if (
        not pseudonym
        or not all(letter.isalnum() or letter in "-_" for letter in pseudonym)
        or not pseudonym.isascii()
    ):
        raise UnknownDeviceError("No device has this pseudonym and token.")
    return f"/devices/{pseudonym}{rest}"


def _place(latitude: float, longitude: float) -> dict[str, float]:
    """Numbers that JSON can hold; the service checks them again."""
    try:
        place = {"latitude": float(latitude), "longitude": float(longitude)}
    except (TypeError, ValueError):
        raise DataError("latitude and longitude must be numbers.") from None
    if not (-90 <= place["latitude"] <= 90 and -180 <= place["longitude"] <= 180):
        raise DataError("latitude must be within -90 and 90, longitude within -180 and 180.")
    return place


def _usable(told: Mapping[str, Any]) -> Place | None:
    location = told["location"]
    return None if location == "waiting" else Place(location["latitude"], location["longitude"])


def _wait(response: httpx.Response) -> float | None:
    """Seconds to wait before asking again, if the service says so."""
    if response.status_code != 429:
        return None
    try:
        return max(0.0, float(response.headers.get("Retry-After", "1")))
    except ValueError:
        return 1.0


def _read(response: httpx.Response) -> dict[str, Any]:
    """The content of an answer, or the error that it stands for."""
    status = response.status_code
    if status == 204:
        return {}
    if 200 <= status < 300:
        try:
            told = response.json()
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise ServiceError(
                "The service answered what is no JSON. Is the url that of a location anonymizer?"
            )
        return told
    kind, text = _ERRORS.get(status, (ServiceError, f"The service answered with status {status}."))
    raise kind(text)


_ERRORS: Mapping[int, tuple[type[Exception], str]] = {
    401: (OptionError, "The service does not take this token."),
    404: (UnknownDeviceError, "No device has this pseudonym and token."),
    409: (TooFewRecordsError, "The service has fewer devices than k."),
    422: (
        DataError,
        "The service refused a field: latitude is from -90 to 90, longitude from -180 to 180, k from 2.",
    ),
    503: (ServiceError, "The service cannot do this now. Try again later."),
    429: (ServiceError, "The service has too many requests from this address. Try again later."),
}
