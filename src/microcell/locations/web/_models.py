"""What goes in and out, as the description of the API tells it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

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
]


class Location(BaseModel):
    """A place on the Earth, in degrees."""

    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)

    latitude: Annotated[float, Field(ge=-90, le=90, allow_inf_nan=False, description="North is positive.")]
    longitude: Annotated[float, Field(ge=-180, le=180, allow_inf_nan=False, description="East is positive.")]


_Usable = Annotated[
    Location | Literal["waiting"],
    Field(description='The location to use, which k devices or more share; "waiting" while there are too few.'),
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
