"""Request and response bodies, and error responses that never repeat what was sent."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.routing import Route

from microcell.errors import (
    DataError,
    GuaranteeError,
    OptionError,
    ServiceError,
    UnknownDeviceError,
)
from microcell.locations.records import Publication

__all__ = [
    "CellCollection",
    "ErrorResponse",
    "Health",
    "History",
    "InvalidRequest",
    "Location",
    "LookUpResponse",
    "PublicHistory",
    "RebuildResponse",
    "SignUpResponse",
    "WaitQuery",
    "WhatIfQuery",
    "error_body",
    "error_responses",
    "handle_errors",
    "tidy_openapi",
]


class Location(BaseModel):
    """A point on the Earth, in degrees."""

    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)

    latitude: Annotated[
        float, Field(ge=-90, le=90, allow_inf_nan=False, description="North is positive.")
    ]
    longitude: Annotated[
        float, Field(ge=-180, le=180, allow_inf_nan=False, description="East is positive.")
    ]


_UsableLocation = Annotated[
    Location | Literal["waiting"],
    Field(
        description="The location to use, shared by at least k devices, "
        'or "waiting" while there are too few.'
    ),
]


class LookUpResponse(BaseModel):
    """The location that a device should use, its alias, and how long both are valid."""

    location: _UsableLocation
    accuracy: Annotated[
        float | None,
        Field(
            description="Kilometres; at least three of four devices were this close to the "
            "location when its cell was built."
        ),
    ]
    alias: Annotated[
        str | None,
        Field(description="Name to use with the location; never show providers the pseudonym."),
    ]
    generation: Annotated[
        int, Field(description="Number of publications, merges and suspensions so far.")
    ]
    valid_until: Annotated[float | None, Field(description="Unix time of the next publication.")]
    pending: Annotated[bool, Field(description="A move takes effect with the next publication.")]


class SignUpResponse(BaseModel):
    """Credentials of a new device. Keep them secret; the token is shown only once."""

    pseudonym: str
    token: str
    location: _UsableLocation


class ErrorResponse(BaseModel):
    """Why a request failed: a stable code for programs, and a message for people."""

    code: str
    detail: str


class FieldProblem(BaseModel):
    """What is wrong with a field."""

    field: Literal["latitude", "longitude", "k", "wait", "body", "other"]
    problem: str


class InvalidRequest(ErrorResponse):
    """Invalid fields of a request. The response never repeats what was sent."""

    fields: list[FieldProblem]


class Health(BaseModel):
    """The service responds."""

    status: Literal["ok"]


class RebuildResponse(BaseModel):
    """All cells will be rebuilt at the next publication."""

    requested: Literal[True]


class CellProperties(BaseModel):
    """Public information about a cell: place, size band, and radius in km."""

    number: int
    latitude: float
    longitude: float
    at_least: int
    below: int
    radius: float


class CellFeature(BaseModel):
    """A cell as a GeoJSON feature. Its geometry is the region that the cell covers."""

    type: Literal["Feature"]
    id: int
    geometry: dict[str, Any] | None
    properties: CellProperties


class CellCollection(BaseModel):
    """One publication as GeoJSON (RFC 7946), with the state of the guarantee."""

    type: Literal["FeatureCollection"]
    features: list[CellFeature]
    k: int
    devices: int
    waiting: int
    smallest_cell: int | None
    rebuilt_at: Annotated[float | None, Field(description="Unix time of the last rebuild.")]
    published_at: Annotated[float | None, Field(description="Unix time of the publication.")]
    generation: int


class PublicFigures(BaseModel):
    """Figures of a publication: counts rounded down to multiples of k, or to size bands."""

    generation: int
    at: float
    devices: int
    waiting: int
    cells: int
    smallest_cell: int | None
    k_over_history: int | None
    rebuilt: bool


class PublicHistory(BaseModel):
    """Recent publications, oldest first."""

    k: int
    next_publication_at: float | None
    publications: list[PublicFigures]


class History(BaseModel):
    """Recent publications with exact figures, oldest first."""

    publications: list[Publication]


class WaitQuery(BaseModel):
    """Query of a look-up: how long to wait for a new answer."""

    model_config = ConfigDict(extra="forbid")

    wait: Annotated[float, Field(ge=0, le=30, allow_inf_nan=False)] = 0.0


_STATUS = {
    400: ("service.bad_request", "The request is malformed."),
    401: ("service.unauthorized", "The token is missing, or is not the operator's."),
    404: (
        "service.unknown_device",
        "No device has this pseudonym and token; the response does not say which one is wrong.",
    ),
    408: ("service.bad_request", "The request body did not arrive in time."),
    409: ("guarantee.too_few_records", "There are fewer devices than k."),
    413: ("service.bad_request", "The request body is too large."),
    422: (
        "service.invalid_field",
        "A field is missing, unknown, of the wrong type or out of range.",
    ),
    429: ("service.rate_limited", "Too many requests; see Retry-After."),
    500: ("service.failed", "The service failed."),
    503: ("service.unavailable", "The database is unreachable, or the service is shutting down."),
}
"""Error code and description of each status."""

_COMMON = (400, 408, 413, 429, 500, 503)
"""Statuses that any route may respond with."""

_HEADERS = {401: "WWW-Authenticate", 429: "Retry-After", 503: "Retry-After"}
_SUCCESS = {"200", "201", "202", "204", "304"}
_FIELDS = frozenset({"latitude", "longitude", "k", "wait"})
_PROBLEMS = {
    "missing": "is missing",
    "extra_forbidden": "is unknown",
    "greater_than_equal": "is too small",
    "less_than_equal": "is too large",
    "finite_number": "must be finite",
    "float_type": "must be a number",
    "int_parsing": "must be an integer",
    "float_parsing": "must be a number",
    "json_invalid": "is not valid JSON",
}


def error_body(status: int, detail: str) -> dict[str, str]:
    """Return the body of an error response."""
    code, _ = _STATUS.get(status, ("service.bad_request", ""))
    return {"code": code, "detail": detail}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI description of error responses: the common ones and those given."""
    responses: dict[int | str, dict[str, Any]] = {}
    for status in sorted({*_COMMON, *statuses}):
        response: dict[str, Any] = {
            "description": _STATUS[status][1],
            "model": InvalidRequest if status == 422 else ErrorResponse,
        }
        if status in _HEADERS:
            response["headers"] = {_HEADERS[status]: {"schema": {"type": "string"}}}
        responses[status] = response
    return responses


def handle_errors(app: FastAPI) -> None:
    """Install the exception handlers; FastAPI's own responses repeat what was sent."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse(_describe_invalid(error.errors()), status_code=422)

    @app.exception_handler(HTTPException)
    async def by_status(request: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers or {})
        body = error_body(error.status_code, error.detail)
        if error.status_code == 405:
            # Starlette lists only the methods of the first route that matches the path.
            headers["Allow"] = ", ".join(sorted(_allowed_methods(app, request)))
        if error.status_code == 404:  # no such path; devices raise UnknownDeviceError
            body["code"] = "service.bad_request"
        return JSONResponse(body, status_code=error.status_code, headers=headers)

    @app.exception_handler(UnknownDeviceError)
    async def unknown_device(_: Request, __: UnknownDeviceError) -> JSONResponse:
        return _respond(404, "No device has this pseudonym and token.")

    @app.exception_handler(GuaranteeError)
    async def too_few(_: Request, __: GuaranteeError) -> JSONResponse:
        return _respond(409, "There are fewer devices than k.")

    @app.exception_handler(ServiceError)
    async def unavailable(_: Request, __: ServiceError) -> JSONResponse:
        detail = "The service is temporarily unavailable. Try again later."
        return _respond(503, detail, headers={"Retry-After": "5"})

    @app.exception_handler(DataError)
    @app.exception_handler(OptionError)
    async def out_of_range(_: Request, __: Exception) -> JSONResponse:
        fields = [{"field": "other", "problem": "is out of range"}]
        return _respond(422, "A field is out of range.", fields=fields)

    @app.exception_handler(Exception)
    async def failed(_: Request, __: Exception) -> JSONResponse:
        return _respond(500, "The service failed. Its log contains the details.")


def _respond(
    status: int, detail: str, *, headers: Mapping[str, str] | None = None, **content: Any
) -> JSONResponse:
    body = {**error_body(status, detail), **content}
    return JSONResponse(body, status_code=status, headers=headers)


def tidy_openapi(app: FastAPI) -> None:
    """Correct the generated OpenAPI description.

    FastAPI adds a 422 response that no route gives, and assumes that errors have the media type of
    the successful response.
    """
    description = app.openapi()
    for operation in (item for path in description["paths"].values() for item in path.values()):
        responses = operation["responses"]
        if "HTTPValidationError" in repr(responses.get("422")):
            del responses["422"]
        for status in responses.keys() - _SUCCESS:
            content = next(iter(responses[status]["content"].values()))
            responses[status]["content"] = {"application/json": content}
    for name in ("HTTPValidationError", "ValidationError"):
        description["components"]["schemas"].pop(name, None)


def _allowed_methods(app: FastAPI, request: Request) -> set[str]:
    return {
        method
        for route in app.routes
        if isinstance(route, Route) and route.path_regex.match(request.url.path)
        for method in route.methods or ()
    }


def _describe_invalid(errors: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the body of a 422 response, without unknown field names, which the client chose.

    Examples
    --------
    >>> errors = [{"type": "extra_forbidden", "loc": ("body", "41.5"), "input": 2}]
    >>> _describe_invalid(errors)["fields"]
    [{'field': 'other', 'problem': 'is unknown'}]
    """
    fields = [
        {
            "field": _field_name(error["loc"]),
            "problem": _PROBLEMS.get(error["type"], "is not valid"),
        }
        for error in errors
    ]
    return {**error_body(422, "The request is not valid."), "fields": fields}


def _field_name(location: Sequence[Any]) -> str:
    if len(location) < 2:
        return "body"
    return location[1] if location[1] in _FIELDS else "other"


class WhatIfQuery(BaseModel):
    """Query of a what-if computation; other parameters are rejected."""

    model_config = ConfigDict(extra="forbid")

    k: Annotated[int, Field(ge=2, le=1_000_000)]
