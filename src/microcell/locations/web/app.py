"""The routes of the service, and their description."""

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from importlib.resources import files
from threading import Lock
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Query, Response
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from microcell import __version__
from microcell.errors import TooFewRecordsError
from microcell.locations.anonymizer import Anonymizer
from microcell.locations.clustering import Clustering
from microcell.locations.polygons import geometries
from microcell.locations.records import CellSummary, Overview, Place
from microcell.locations.web.metrics import CONTENT_TYPE, Metrics
from microcell.locations.web.models import (
    CellCollection,
    Health,
    Located,
    Location,
    Rebuilding,
    SignedUp,
    StatusOut,
    WhatIfOut,
    declared,
    describe,
    install,
)
from microcell.locations.web.shield import App, Settings, Shield

__all__ = ["CellMap", "CellPage", "PageFile", "create_app", "page_files"]


@dataclass(frozen=True)
class CellPage:
    """The text of all cells, and a tag that changes with it."""

    body: bytes
    tag: str


class CellMap:
    """Makes the page of cells. Polygons are drawn anew only when cells are; sizes change with every sign-up."""

    def __init__(self, anonymizer: Anonymizer) -> None:
        self._anonymizer = anonymizer
        self._lock = Lock()
        self._generation: int | None = None
        self._shapes: list[str] = []

    def page(self) -> CellPage:
        """The cells as they are now."""
        with self._lock:
            view = self._overview()
            body = _text(view, self._shapes).encode()
        return CellPage(body, f'"{view.generation}-{blake2b(body, digest_size=12).hexdigest()}"')

    def _overview(self) -> Overview:
        """The cells, after their polygons were made sure to be of the same generation."""
        while True:
            view = self._anonymizer.overview()
            if view.generation == self._generation and len(self._shapes) == len(view.cells):
                return view
            clustering = self._anonymizer.clustering()
            if view.generation == self._anonymizer.overview().generation:
                self._shapes = _shapes(clustering, len(view.cells))
                self._generation = view.generation


def _shapes(clustering: Clustering | None, count: int) -> list[str]:
    if clustering is None or count == 0:
        return ["null"] * count
    return [
        json.dumps(shape, separators=(",", ":"), allow_nan=False)
        for shape in geometries(clustering)
    ]


def _text(view: Overview, shapes: list[str]) -> str:
    """The collection, its polygons put in as texts, which are long and rarely new."""
    about = {
        "k": view.k,
        "devices": view.devices,
        "waiting": view.waiting,
        "least_size": view.least_size,
        "rebuilt": view.rebuilt,
        "generation": view.generation,
    }
    cells = ",".join(_feature(cell, shape) for cell, shape in zip(view.cells, shapes, strict=True))
    return f'{{"type":"FeatureCollection",{json.dumps(about)[1:-1]},"features":[{cells}]}}'


def _feature(cell: CellSummary, shape: str) -> str:
    properties = {
        "number": cell.number,
        "latitude": cell.place.latitude,
        "longitude": cell.place.longitude,
        "size": cell.size,
        "radius": cell.radius,
    }
    told = json.dumps(properties, allow_nan=False)
    return f'{{"type":"Feature","id":{cell.number},"properties":{told},"geometry":{shape}}}'


_MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
}
"""Others are not served. The list is here and not the machine's, which differs."""


@dataclass(frozen=True)
class PageFile:
    """A file as it is sent."""

    body: bytes
    media_type: str


def page_files() -> dict[str, PageFile]:
    """The files by the paths they are served at: ``/`` for index.html, ``/page/NAME`` for the others.

    Examples
    --------
    >>> page_files()["/"].media_type
    'text/html'
    """
    found: dict[str, PageFile] = {}
    for entry in sorted(
        files("microcell.locations").joinpath("page").iterdir(), key=lambda entry: entry.name
    ):
        suffix = entry.name[entry.name.rfind(".") :]
        if entry.is_file() and suffix in _MEDIA_TYPES:
            file = PageFile(entry.read_bytes(), _MEDIA_TYPES[suffix])
            found["/" if entry.name == "index.html" else f"/page/{entry.name}"] = file
    return found


_ABOUT = """
Devices sign up with an exact location and get one to use in its place, which at least k devices share.

The guarantee is that of the cells as they are now: who knows the history of cells and who cancelled may see fewer
than k. `GET /cells` tells the least size and the time of the last rebuild.
"""

_device = HTTPBearer(
    auto_error=False, scheme_name="device", description="The token that the device got at sign-up."
)
_operator = HTTPBearer(
    auto_error=False, scheme_name="operator", description="The token of whoever runs the service."
)
_Credentials = HTTPAuthorizationCredentials | None
_Answers = dict[int | str, dict[str, Any]]


def create_app(anonymizer: Anonymizer, settings: Settings) -> App:
    """The service as an ASGI application, which any ASGI server can run.

    Look-ups are answered on the event loop, from memory; what writes runs on threads.

    Examples
    --------
    >>> from microcell.locations import Anonymizer, new_key
    >>> anonymizer = Anonymizer.open("sqlite://", k=2, key=new_key())
    >>> app = create_app(anonymizer, Settings(operator="correct horse battery staple"))
    >>> anonymizer.close()
    """
    app = FastAPI(
        title="microcell locations",
        version=__version__,
        description=_ABOUT.strip(),
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    metrics = Metrics(anonymizer.status)
    install(app)
    _add_devices(app, anonymizer)
    _add_cells(app, anonymizer)
    _add_operator(app, anonymizer, settings, metrics)
    for path, file in page_files().items():
        app.add_api_route(path, _serve_file(file.body, file.media_type), include_in_schema=False)
    describe(app)
    return Shield(app, settings, metrics)


def _add_devices(app: FastAPI, anonymizer: Anonymizer) -> None:
    """Sign-up, look-up, move, cancellation."""
    answers = declared(401, 404)

    @app.post(
        "/devices",
        status_code=201,
        response_model=SignedUp,
        responses=declared(422),
        tags=["devices"],
    )
    def sign_up(place: Location) -> Any:
        """Sign a device up with the exact location where it mostly is."""
        account = anonymizer.sign_up(place.latitude, place.longitude)
        told = {
            "pseudonym": account.pseudonym,
            "token": account.token,
            "location": _usable(account.location),
        }
        return JSONResponse(told, status_code=201)

    @app.get(
        "/devices/{pseudonym}/location", response_model=Located, responses=answers, tags=["devices"]
    )
    async def look_up(
        pseudonym: str, credentials: Annotated[_Credentials, Depends(_device)]
    ) -> Any:
        """Look up the location to use."""
        # Not by way of _device_token as a dependency: each takes a quarter of the time of a look-up.
        token = await _device_token(credentials)
        return JSONResponse({"location": _usable(anonymizer.look_up(pseudonym, token))})

    @app.put(
        "/devices/{pseudonym}/location",
        response_model=Located,
        responses=answers | declared(422),
        tags=["devices"],
    )
    def move(pseudonym: str, place: Location, token: Annotated[str, Depends(_device_token)]) -> Any:
        """Move a device to a new exact location; what comes back is the location to use from now on."""
        found = anonymizer.move(pseudonym, token, place.latitude, place.longitude)
        return JSONResponse({"location": _usable(found)})

    def cancel(pseudonym: str, token: Annotated[str, Depends(_device_token)]) -> Response:
        """Cancel a device: its pseudonym, token and exact location are forgotten."""
        anonymizer.cancel(pseudonym, token)
        return Response(status_code=204)

    for path, name in (
        ("/devices/{pseudonym}", "cancel"),
        ("/devices/{pseudonym}/location", "cancel_location"),
    ):
        app.delete(
            path,
            status_code=204,
            response_class=Response,
            responses=answers,
            operation_id=name,
            tags=["devices"],
        )(cancel)


def _add_cells(app: FastAPI, anonymizer: Anonymizer) -> None:
    """What anyone may know."""
    cells = CellMap(anonymizer)
    tagged = {
        "headers": {
            "ETag": {"schema": {"type": "string"}, "description": "Changes with what is told."}
        }
    }
    told: _Answers = {200: tagged, 304: {"description": "Nothing has changed.", **tagged}}

    @app.get(
        "/cells",
        response_model=CellCollection,
        response_class=_GeoJson,
        responses=told | declared(),
    )
    def list_cells(if_none_match: Annotated[str | None, Header()] = None) -> Response:
        """List the cells for a map: published places, sizes, radii and polygons; never members."""
        page = cells.page()
        headers = {"ETag": page.tag, "Cache-Control": "no-cache"}
        if if_none_match is not None and page.tag in (
            tag.strip() for tag in if_none_match.split(",")
        ):
            return Response(status_code=304, headers=headers)
        return Response(page.body, media_type=_GEOJSON, headers=headers)

    @app.get("/health", response_model=Health, responses=declared())
    async def health() -> Any:
        """Tell that the service answers."""
        return JSONResponse({"status": "ok"})


def _add_operator(
    app: FastAPI, anonymizer: Anonymizer, settings: Settings, metrics: Metrics
) -> None:
    """What needs the operator's token."""
    expected = _digest(settings.operator)

    async def operator(credentials: Annotated[_Credentials, Depends(_operator)]) -> None:
        if credentials is None or not hmac.compare_digest(
            expected, _digest(credentials.credentials)
        ):
            raise _unauthorized("This needs the operator's token: Authorization: Bearer TOKEN.")

    needed: dict[str, Any] = {"dependencies": [Depends(operator)], "tags": ["operator"]}
    answers = declared(401)

    @app.get("/status", response_model=StatusOut, responses=answers, **needed)
    async def status() -> Any:
        """Tell how the service does."""
        return JSONResponse(asdict(anonymizer.status()))

    @app.post(
        "/rebuild",
        status_code=202,
        response_model=Rebuilding,
        responses=declared(401, 409),
        **needed,
    )
    def rebuild() -> Any:
        """Rebuild all cells in the background. 409 while there are fewer devices than k."""
        now = anonymizer.status()
        if now.devices < now.k:
            raise TooFewRecordsError(f"{now.devices} devices cannot make a cell of k = {now.k}.")
        anonymizer.rebuild()
        return JSONResponse({"rebuilding": True}, status_code=202)

    busy = Lock()

    @app.get("/what-if", response_model=WhatIfOut, responses=declared(401, 409, 422), **needed)
    def what_if(k: Annotated[int, Query(ge=2, le=1_000_000)]) -> Any:
        """Tell how far devices would be from the locations they use with another k. One question at a time."""
        if not busy.acquire(blocking=False):
            raise HTTPException(
                429, "Another what-if is being worked out. Try again later.", {"Retry-After": "2"}
            )
        try:
            return JSONResponse(asdict(anonymizer.what_if(k)))
        finally:
            busy.release()

    shown: dict[str, Any] = {"tags": ["operator"]} if settings.open_metrics else needed
    text: _Answers = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}

    @app.get("/metrics", response_class=_Text, responses=text | answers, **shown)
    def show_metrics() -> Response:
        """Counts and times for Prometheus."""
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE})


_GEOJSON = "application/geo+json"


class _GeoJson(JSONResponse):
    media_type = _GEOJSON


class _Text(Response):
    media_type = "text/plain"


async def _device_token(credentials: Annotated[_Credentials, Depends(_device)]) -> str:
    """The token that came with the request, whatever it is worth."""
    if credentials is None or not credentials.credentials:
        raise _unauthorized("This needs the device's token: Authorization: Bearer TOKEN.")
    return credentials.credentials


def _unauthorized(detail: str) -> HTTPException:
    return HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _usable(place: Place | None) -> dict[str, float] | str:
    return (
        "waiting" if place is None else {"latitude": place.latitude, "longitude": place.longitude}
    )


def _serve_file(body: bytes, media_type: str) -> Callable[[], Any]:
    headers = {"Cache-Control": "no-cache"}

    async def serve_file() -> Response:
        return Response(body, media_type=media_type, headers=headers)

    return serve_file
