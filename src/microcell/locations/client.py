"""HTTP client of the location anonymizer, for devices and operators."""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from time import sleep
from types import TracebackType
from typing import Any, TypeVar

import httpx

from microcell.errors import (
    DataError,
    MicrocellError,
    OptionError,
    ServiceError,
    TooFewRecordsError,
    UnknownDeviceError,
)
from microcell.locations.records import Account, Alarm, Answer, Place, Publication, Status, WhatIf

__all__ = ["Client"]

MAX_WAIT = 60.0
"""Longest Retry-After, in seconds, that the client waits for."""

Built = TypeVar("Built")

_PSEUDONYM = re.compile(r"[A-Za-z0-9_-]+")


class Client:
    """Client of a running service, with the same methods as :class:`Anonymizer`.

    Errors never repeat a location or a token. A client may be shared between threads.

    Parameters
    ----------
    url
        Address of the service, for example ``https://locations.example.org``.
    operator
        Operator's token, required by :meth:`status`, :meth:`rebuild` and :meth:`what_if`.
    timeout
        Seconds to wait for a response.
    retries
        Number of times to repeat a rate-limited request, after the delay that the service asks for.
    transport, pause
        httpx transport and sleep function, to be replaced in tests.

    Examples
    --------
    >>> with Client("http://localhost:8000") as client:  # doctest: +SKIP
    ...     account = client.sign_up(41.3874, 2.1686)
    ...     client.look_up(account.pseudonym, account.token).location
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
            raise OptionError(
                "The URL of the service must start with http:// or https://. Correct it.",
                code="option.invalid",
                option="url",
            )
        self._operator = operator
        self._retries = retries
        self._pause = pause
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
        """Close all connections."""
        self._http.close()

    def sign_up(self, latitude: float, longitude: float) -> Account:
        """Create an account. Keep its pseudonym and token: they cannot be recovered.

        Its location is None while the device has to wait.
        """
        body = self._request("POST", "/devices", json=_place_json(latitude, longitude))
        return _build(lambda: Account(body["pseudonym"], body["token"], _location(body)))

    def look_up(
        self, pseudonym: str, token: str, *, known: Answer | None = None, wait: float = 0.0
    ) -> Answer:
        """Return the location to use, the alias to use it under, and how long it is valid.

        If ``known`` is the latest answer, wait up to ``wait`` seconds (at most 30) for a new one,
        and return ``known`` if there is none.
        """
        headers = {} if known is None else {"If-None-Match": f'"{known.tag}"'}
        params = {"wait": wait} if wait > 0 else None
        path = _path(pseudonym, "/location")
        body = self._request("GET", path, token=token, headers=headers, params=params)
        return known if not body and known is not None else _answer(body)

    def move(self, pseudonym: str, token: str, latitude: float, longitude: float) -> Answer:
        """Report a new exact location, which takes effect with the next publication."""
        path, place = _path(pseudonym, "/location"), _place_json(latitude, longitude)
        return _answer(self._request("PUT", path, token=token, json=place))

    def cancel(self, pseudonym: str, token: str) -> None:
        """Delete a device and everything the service stores about it."""
        self._request("DELETE", _path(pseudonym), token=token)

    def cells(self) -> dict[str, Any]:
        """Return the cells as GeoJSON, with the current state of the guarantee."""
        return self._request("GET", "/cells")

    def timeline(self) -> dict[str, Any]:
        """Return recent publications with rounded figures, and the time of the next one."""
        return self._request("GET", "/publications")

    def healthy(self) -> bool:
        """Return True if the service responds."""
        try:
            return bool(self._request("GET", "/health").get("status") == "ok")
        except MicrocellError:  # another service may answer with any status
            return False

    def status(self) -> Status:
        """Return the operator's view of the service."""
        body = self._request("GET", "/status", token=self._operator_token())

        def build() -> Status:
            # A newer service may send further fields.
            content = {item.name: body[item.name] for item in fields(Status)}
            alarms = tuple(Alarm(alarm["code"], alarm["message"]) for alarm in body["alarms"])
            return Status(**{**content, "alarms": alarms})

        return _build(build)

    def publications(self) -> list[Publication]:
        """Return the figures of recent publications, oldest first."""
        body = self._request("GET", "/history", token=self._operator_token())
        names = [item.name for item in fields(Publication)]
        return _build(
            lambda: [
                Publication(**{name: row[name] for name in names}) for row in body["publications"]
            ]
        )

    def rebuild(self) -> None:
        """Rebuild all cells at the next publication."""
        self._request("POST", "/rebuild", token=self._operator_token())

    def what_if(self, k: int) -> WhatIf:
        """Return the distances between devices and their locations under another k."""
        body = self._request("GET", "/what-if", token=self._operator_token(), params={"k": k})
        return _build(
            lambda: WhatIf(
                k=body["k"],
                cells=body["cells"],
                mean=body["mean"],
                root_mean_square=body["root_mean_square"],
                quantiles=tuple((float(share), float(value)) for share, value in body["quantiles"]),
                edges=tuple(body["edges"]),
                counts=tuple(body["counts"]),
            )
        )

    def _operator_token(self) -> str:
        if self._operator is None:
            raise OptionError(
                "This method requires the operator's token: Client(url, operator=...).",
                code="service.unauthorized",
                option="operator",
            )
        return self._operator

    def _request(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Send a request, wait and repeat it if it is rate-limited, and return the JSON body."""
        headers = dict(headers or {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        for retries_left in range(self._retries, -1, -1):
            try:
                response = self._http.request(method, path, headers=headers, **options)
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
                # The exception's text may contain the request, and with it the pseudonym.
                raise ServiceError(
                    f"The service cannot be reached ({type(error).__name__}). Check its URL and "
                    "that it is running.",
                    code="service.unavailable",
                    cause=type(error).__name__,
                ) from None
            wait = _retry_after(response)
            if wait is None or retries_left == 0 or wait > MAX_WAIT:
                break
            self._pause(wait)
        return _read(response)


def _path(pseudonym: str, rest: str = "") -> str:
    if not _PSEUDONYM.fullmatch(pseudonym):
        raise UnknownDeviceError(
            "No device has this pseudonym and token.", code="service.unknown_device"
        )
    return f"/devices/{pseudonym}{rest}"


def _place_json(latitude: float, longitude: float) -> dict[str, float]:
    """Return a request body, after checking the range: JSON cannot represent NaN or infinity."""
    try:
        place = {"latitude": float(latitude), "longitude": float(longitude)}
    except (TypeError, ValueError):
        raise DataError(
            "latitude and longitude must be numbers.", code="data.not_a_number"
        ) from None
    if not (-90 <= place["latitude"] <= 90 and -180 <= place["longitude"] <= 180):
        raise DataError(
            "latitude must be between -90 and 90, and longitude between -180 and 180.",
            code="data.out_of_range",
        )
    return place


def _location(body: Mapping[str, Any]) -> Place | None:
    location = _build(lambda: body["location"])
    if location == "waiting":
        return None
    return _build(lambda: Place(location["latitude"], location["longitude"]))


def _answer(body: Mapping[str, Any]) -> Answer:
    location = _location(body)
    return _build(
        lambda: Answer(
            location=location,
            accuracy=body["accuracy"],
            alias=body["alias"],
            generation=body["generation"],
            valid_until=body["valid_until"],
            pending=body["pending"],
        )
    )


def _build(make: Callable[[], Built]) -> Built:
    """Build a record from a response; raise ServiceError if a field is missing."""
    try:
        return make()
    except (KeyError, TypeError, ValueError):
        raise ServiceError(
            "The response is incomplete. Is this the URL of a location anonymizer?",
            code="service.unavailable",
        ) from None


def _retry_after(response: httpx.Response) -> float | None:
    """Return the seconds to wait before repeating a rate-limited request; None for others."""
    if response.status_code != 429:
        return None
    try:
        return max(0.0, float(response.headers.get("Retry-After", "1")))
    except ValueError:
        return 1.0


def _read(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON body of a response, or raise the error that its status indicates."""
    status = response.status_code
    if status in {204, 304}:
        return {}
    if 200 <= status < 300:
        try:
            body = response.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise ServiceError(
                "The response is not JSON. Check that this is the URL of a location anonymizer.",
                code="service.unavailable",
            )
        return body
    if status == 404 and "/devices" not in response.request.url.path:
        raise ServiceError(
            "The service has no such page. Is this the URL of a location anonymizer?",
            code="service.bad_request",
            status=status,
        )
    kind, code, message = _ERRORS.get(
        status,
        (ServiceError, "service.unavailable", f"The service responded with status {status}."),
    )
    raise kind(message, code=code, status=status)


_ERRORS: Mapping[int, tuple[type[MicrocellError], str, str]] = {
    401: (OptionError, "service.unauthorized", "The service does not accept this token."),
    404: (
        UnknownDeviceError,
        "service.unknown_device",
        "No device has this pseudonym and token.",
    ),
    409: (
        TooFewRecordsError,
        "guarantee.too_few_records",
        "The service has fewer devices than k.",
    ),
    422: (
        DataError,
        "service.invalid_field",
        "The service rejected a field: latitude must be between -90 and 90, longitude between "
        "-180 and 180, and k at least 2.",
    ),
    429: (
        ServiceError,
        "service.rate_limited",
        "The service received too many requests from this address. Try again later.",
    ),
    503: (
        ServiceError,
        "service.unavailable",
        "The service is temporarily unavailable. Try again later.",
    ),
}
