"""Answers to requests that cannot be met: one form for all, and never a word of what was sent."""

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

__all__ = [
    "CellCollection",
    "Health",
    "InvalidRequest",
    "Located",
    "Location",
    "Rebuilding",
    "Refusal",
    "SignedUp",
    "StatusOut",
    "WhatIfOut",
    "declared",
    "describe",
    "install",
]


class Location(BaseModel):
    """A place on the Earth, in degrees."""

    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)

    latitude: Annotated[
        float, Field(ge=-90, le=90, allow_inf_nan=False, description="North is positive.")
    ]
    longitude: Annotated[
        float, Field(ge=-180, le=180, allow_inf_nan=False, description="East is positive.")
    ]


_Usable = Annotated[
    Location | Literal["waiting"],
    Field(
        description='The location to use, which k devices or more share; "waiting" while there are too few.'
    ),
]


class Located(BaseModel):
    """The location that a device is to use."""

    location: _Usable


class SignedUp(BaseModel):
    """What a device must keep: whoever has both words speaks for it. The token is shown this once."""

    pseudonym: str
    token: str
    location: _Usable


class Refusal(BaseModel):
    """Why a request was refused."""

    detail: str


class Problem(BaseModel):
    """What is wrong with a field."""

    field: Literal["latitude", "longitude", "k", "body", "other"]
    problem: str


class InvalidRequest(Refusal):
    """Which fields of a request are wrong; what was sent is never repeated."""

    fields: list[Problem]


class Health(BaseModel):
    """The service answers."""

    status: Literal["ok"]


class Rebuilding(BaseModel):
    """The rebuild that was asked for has begun, or waits for the one under way."""

    rebuilding: Literal[True]


class CellProperties(BaseModel):
    """What anyone may know of a cell: its published place, how many share it, and its radius in kilometres."""

    number: int
    latitude: float
    longitude: float
    size: int
    radius: float


class Cell(BaseModel):
    """A cell as a GeoJSON feature. Its geometry is the part of the Earth whose devices it takes in."""

    type: Literal["Feature"]
    id: int
    geometry: dict[str, Any] | None
    properties: CellProperties


class CellCollection(BaseModel):
    """All cells as GeoJSON (RFC 7946), with what the guarantee is worth now."""

    type: Literal["FeatureCollection"]
    features: list[Cell]
    k: int
    devices: int
    waiting: int
    least_size: int | None
    rebuilt: Annotated[float | None, Field(description="Seconds since 1970.")]
    generation: int


class StatusOut(BaseModel):
    """What the operator may know of the service."""

    k: int
    devices: int
    waiting: int
    cells: int
    least_size: int | None
    generation: int
    rebuilt: float | None
    rebuild_seconds: float | None
    rebuilding: bool
    rebuilds: int
    merges: int
    sign_ups: int
    moves: int
    cancellations: int
    changes: int
    changes_until_rebuild: int
    last_failure: str | None


class WhatIfOut(BaseModel):
    """How far devices would be from the locations they use, in kilometres, with another k."""

    k: int
    cells: int
    mean: float
    root_mean_square: float
    quantiles: Annotated[
        list[Annotated[list[float], Field(min_length=2, max_length=2)]],
        Field(description="Shares of devices, each with the distance that so many are within."),
    ]
    edges: list[float]
    counts: list[int]


UNKNOWN = "No device has this pseudonym and token."

_REASONS = {
    400: "The request cannot be read.",
    401: "The token is missing, or is not the operator's.",
    404: "No device has this pseudonym and token; which of them is wrong is not said.",
    408: "The body did not come in time.",
    409: "There are fewer devices than k.",
    413: "The body is too large.",
    422: "A field is missing, unknown, of another type or out of range.",
    429: "Too many requests; see Retry-After.",
    500: "The service failed.",
    503: "The database cannot be reached, or the service is being stopped.",
}
_ANYWHERE = (400, 408, 413, 429, 500, 503)
_HEADERS = {401: "WWW-Authenticate", 429: "Retry-After", 503: "Retry-After"}
_FIELDS = frozenset({"latitude", "longitude", "k"})
_PROBLEMS = {
    "missing": "is missing",
    "extra_forbidden": "is not known",
    "greater_than_equal": "is too small",
    "less_than_equal": "is too large",
    "finite_number": "must be finite",
    "float_type": "must be a number",
    "int_parsing": "must be a whole number",
    "json_invalid": "is not JSON",
}


def declared(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route, as its description tells them: those that any route has, and others by status."""
    return {
        code: {
            "description": _REASONS[code],
            "model": InvalidRequest if code == 422 else Refusal,
            **(
                {"headers": {_HEADERS[code]: {"schema": {"type": "string"}}}}
                if code in _HEADERS
                else {}
            ),
        }
        for code in sorted({*_ANYWHERE, *codes})
    }


def install(app: FastAPI) -> None:
    """Let the app answer by these; FastAPI's own answers repeat what was sent."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse(_describe(error.errors()), status_code=422)

    @app.exception_handler(HTTPException)
    async def refused_by_status(request: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers or {})
        if (
            error.status_code == 405
        ):  # a path whose methods are several routes is told of one of them only
            headers["Allow"] = ", ".join(sorted(_methods(app, request)))
        return JSONResponse(
            {"detail": error.detail}, status_code=error.status_code, headers=headers
        )

    @app.exception_handler(UnknownDeviceError)
    async def unknown(_: Request, __: UnknownDeviceError) -> JSONResponse:
        return JSONResponse({"detail": UNKNOWN}, status_code=404)

    @app.exception_handler(GuaranteeError)
    async def too_few(_: Request, __: GuaranteeError) -> JSONResponse:
        return JSONResponse({"detail": "There are fewer devices than k."}, status_code=409)

    @app.exception_handler(ServiceError)
    async def unavailable(_: Request, __: ServiceError) -> JSONResponse:
        told = {"detail": "The service cannot do this now. Try again later."}
        return JSONResponse(told, status_code=503, headers={"Retry-After": "5"})

    @app.exception_handler(DataError)
    @app.exception_handler(OptionError)
    async def refused(_: Request, __: Exception) -> JSONResponse:
        told = {
            "detail": "A field is out of range.",
            "fields": [{"field": "other", "problem": "is out of range"}],
        }
        return JSONResponse(told, status_code=422)

    @app.exception_handler(Exception)
    async def failed(_: Request, __: Exception) -> JSONResponse:
        return JSONResponse(
            {"detail": "The service failed. Its log tells the operator where."}, status_code=500
        )


def describe(app: FastAPI) -> None:
    """Let the description tell these refusals and no others: FastAPI adds one that no route gives, and takes it that
    refusals are of the same form as what they refuse.
    """
    told = app.openapi()
    for operation in (one for path in told["paths"].values() for one in path.values()):
        answers = operation["responses"]
        if "HTTPValidationError" in repr(answers.get("422")):
            del answers["422"]
        for code in answers.keys() - {"200", "201", "202", "204", "304"}:
            answers[code]["content"] = {
                "application/json": next(iter(answers[code]["content"].values()))
            }
    for name in ("HTTPValidationError", "ValidationError"):
        told["components"]["schemas"].pop(name, None)


def _methods(app: FastAPI, request: Request) -> set[str]:
    routes = [route for route in app.routes if isinstance(route, Route)]
    return {
        method
        for route in routes
        if route.path_regex.match(request.url.path)
        for method in route.methods or ()
    }


def _describe(errors: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Which known fields are wrong, and how. The name of an unknown field is what was sent, and not repeated.

    Examples
    --------
    >>> _describe([{"type": "extra_forbidden", "loc": ("body", "41.5"), "input": 2}])["fields"]
    [{'field': 'other', 'problem': 'is not known'}]
    """
    fields = [
        {"field": _field(error["loc"]), "problem": _PROBLEMS.get(error["type"], "is not valid")}
        for error in errors
    ]
    return {"detail": "The request is not valid.", "fields": fields}


def _field(place: Sequence[Any]) -> str:
    if len(place) < 2:
        return "body"
    return place[1] if place[1] in _FIELDS else "other"
