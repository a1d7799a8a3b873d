"""Routes of the web interface."""

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.resources import files
from threading import Lock
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Query, Response
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from microcell import __version__
from microcell._display import count
from microcell.errors import TooFewRecordsError
from microcell.locations.anonymizer import Anonymizer
from microcell.locations.clustering import Clustering
from microcell.locations.polygons import cell_polygons
from microcell.locations.records import CellSummary, Overview, Place, Status, WhatIf
from microcell.locations.vault import hash_token
from microcell.locations.web.metrics import CONTENT_TYPE, Metrics
from microcell.locations.web.middleware import App, Middleware, Settings
from microcell.locations.web.models import (
    CellCollection,
    Health,
    Location,
    LookUpResponse,
    RebuildResponse,
    SignUpResponse,
    WhatIfQuery,
    error_responses,
    handle_errors,
    tidy_openapi,
)

__all__ = ["CellDocument", "CellMap", "PageFile", "create_app", "page_files"]


@dataclass(frozen=True)
class CellDocument:
    """All cells as GeoJSON text, and an entity tag that changes with it."""

    body: bytes
    tag: str


class CellMap:
    """Builds the GeoJSON of the cells.

    Polygons are drawn only when the cells change, while sizes change with every sign-up.
    """

    def __init__(self, anonymizer: Anonymizer) -> None:
        self._anonymizer = anonymizer
        self._lock = Lock()
        self._generation: int | None = None
        self._shapes: list[str] = []

    def document(self) -> CellDocument:
        """Return the current cells."""
        with self._lock:
            overview = self._overview()
            body = _to_geojson(overview, self._shapes).encode()
        digest = hashlib.blake2b(body, digest_size=12).hexdigest()
        return CellDocument(body, f'"{overview.generation}-{digest}"')

    def _overview(self) -> Overview:
        """Return an overview whose generation matches that of the polygons."""
        while True:
            overview = self._anonymizer.overview()
            if overview.generation == self._generation and len(self._shapes) == len(overview.cells):
                return overview
            clustering = self._anonymizer.clustering()
            if overview.generation == self._anonymizer.overview().generation:
                self._shapes = _draw_shapes(clustering, len(overview.cells))
                self._generation = overview.generation


def _draw_shapes(clustering: Clustering | None, count: int) -> list[str]:
    if clustering is None or count == 0:
        return ["null"] * count
    return [
        json.dumps(shape, separators=(",", ":"), allow_nan=False)
        for shape in cell_polygons(clustering)
    ]


def _to_geojson(overview: Overview, shapes: list[str]) -> str:
    """Return the collection as text, inserting the long polygons, which are already text."""
    properties = {
        "k": overview.k,
        "devices": overview.devices,
        "waiting": overview.waiting,
        "smallest_cell": overview.smallest_cell,
        "rebuilt_at": overview.rebuilt_at,
        "generation": overview.generation,
    }
    cells = zip(overview.cells, shapes, strict=True)
    features = ",".join(_to_feature(cell, shape) for cell, shape in cells)
    return f'{{"type":"FeatureCollection",{json.dumps(properties)[1:-1]},"features":[{features}]}}'


def _to_feature(cell: CellSummary, shape: str) -> str:
    properties = {
        "number": cell.number,
        "latitude": cell.place.latitude,
        "longitude": cell.place.longitude,
        "size": cell.size,
        "radius": cell.radius,
    }
    text = json.dumps(properties, allow_nan=False)
    return f'{{"type":"Feature","id":{cell.number},"properties":{text},"geometry":{shape}}}'


_MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
}
"""Media types of the files that are served. The mimetypes module differs between machines."""


@dataclass(frozen=True)
class PageFile:
    """A static file."""

    body: bytes
    media_type: str


def page_files() -> dict[str, PageFile]:
    """Return the static files by path: ``/`` for index.html, ``/page/NAME`` for the others.

    Examples
    --------
    >>> page_files()["/"].media_type
    'text/html'
    """
    result: dict[str, PageFile] = {}
    folder = files("microcell.locations").joinpath("page")
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        suffix = entry.name[entry.name.rfind(".") :]
        if entry.is_file() and suffix in _MEDIA_TYPES:
            path = "/" if entry.name == "index.html" else f"/page/{entry.name}"
            result[path] = PageFile(entry.read_bytes(), _MEDIA_TYPES[suffix])
    return result


_DESCRIPTION = """
Devices sign up with an exact location and receive one to use instead, which at least k devices
share.

The guarantee holds for the current cells: someone who knows the history of the cells and who
cancelled may be able to narrow a device down to fewer than k. `GET /cells` shows the size of the
smallest cell and the time of the last rebuild.
"""

_device_scheme = HTTPBearer(
    auto_error=False, scheme_name="device", description="Token of the device from sign-up."
)
_operator_scheme = HTTPBearer(
    auto_error=False, scheme_name="operator", description="Token of the operator of the service."
)
_Credentials = HTTPAuthorizationCredentials | None
_Responses = dict[int | str, dict[str, Any]]
_Restriction = dict[str, Any]


def create_app(anonymizer: Anonymizer, settings: Settings) -> App:
    """Return the service as an ASGI application, which any ASGI server can run.

    Look-ups are answered from memory on the event loop; requests that write run in threads.

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
        description=_DESCRIPTION.strip(),
        docs_url=None,  # FastAPI's documentation pages load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
    )
    metrics = Metrics(anonymizer.status)
    handle_errors(app)
    _add_sign_up_routes(app, anonymizer)
    _add_device_routes(app, anonymizer)
    _add_public_routes(app, anonymizer)
    operator: _Restriction = {"dependencies": [_operator_only(settings)], "tags": ["operator"]}
    _add_operator_routes(app, anonymizer, operator)
    _add_metrics_route(app, metrics, {"tags": ["operator"]} if settings.open_metrics else operator)
    for path, file in page_files().items():
        app.add_api_route(path, _serve_file(file), include_in_schema=False)
    tidy_openapi(app)
    return Middleware(app, settings, metrics)


def _add_sign_up_routes(app: FastAPI, anonymizer: Anonymizer) -> None:
    @app.post(
        "/devices",
        status_code=201,
        response_model=SignUpResponse,
        responses=error_responses(422),
        tags=["devices"],
    )
    def sign_up(place: Location) -> Any:
        """Sign up a device with its usual exact location."""
        account = anonymizer.sign_up(place.latitude, place.longitude)
        body = {
            "pseudonym": account.pseudonym,
            "token": account.token,
            "location": _to_json(account.location),
        }
        return JSONResponse(body, status_code=201)

    def cancel(pseudonym: str, token: Annotated[str, Depends(_device_token)]) -> Response:
        """Delete a device with its pseudonym, token and exact location."""
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
            responses=error_responses(401, 404),
            operation_id=name,
            tags=["devices"],
        )(cancel)


def _add_device_routes(app: FastAPI, anonymizer: Anonymizer) -> None:
    errors = error_responses(401, 404)

    @app.get(
        "/devices/{pseudonym}/location",
        response_model=LookUpResponse,
        responses=errors,
        tags=["devices"],
    )
    async def look_up(
        pseudonym: str, credentials: Annotated[_Credentials, Depends(_device_scheme)]
    ) -> Any:
        """Look up the location to use."""
        # Called directly: each further dependency takes a quarter of the time of a look-up.
        token = await _device_token(credentials)
        return JSONResponse({"location": _to_json(anonymizer.look_up(pseudonym, token))})

    @app.put(
        "/devices/{pseudonym}/location",
        response_model=LookUpResponse,
        responses=errors | error_responses(422),
        tags=["devices"],
    )
    def move(pseudonym: str, place: Location, token: Annotated[str, Depends(_device_token)]) -> Any:
        """Move a device to a new exact location and return the location to use from now on."""
        location = anonymizer.move(pseudonym, token, place.latitude, place.longitude)
        return JSONResponse({"location": _to_json(location)})


def _add_public_routes(app: FastAPI, anonymizer: Anonymizer) -> None:
    cells = CellMap(anonymizer)
    tagged = {
        "headers": {
            "ETag": {"schema": {"type": "string"}, "description": "Changes with the content."}
        }
    }
    responses: _Responses = {200: tagged, 304: {"description": "Not modified.", **tagged}}

    @app.get(
        "/cells",
        response_model=CellCollection,
        response_class=_GeoJson,
        responses=responses | error_responses(),
    )
    def list_cells(if_none_match: Annotated[str | None, Header()] = None) -> Response:
        """List the cells for a map: places, sizes, radii and polygons, but never members."""
        document = cells.document()
        headers = {"ETag": document.tag, "Cache-Control": "no-cache"}
        tags = [] if if_none_match is None else [tag.strip() for tag in if_none_match.split(",")]
        if document.tag in tags:
            return Response(status_code=304, headers=headers)
        return Response(document.body, media_type=_GEOJSON, headers=headers)

    @app.get("/health", response_model=Health, responses=error_responses())
    async def health() -> Any:
        """Confirm that the service responds."""
        return JSONResponse({"status": "ok"})


def _operator_only(settings: Settings) -> Any:
    """Return a dependency that rejects requests without the operator's token."""
    expected = hash_token(settings.operator)

    async def operator(credentials: Annotated[_Credentials, Depends(_operator_scheme)]) -> None:
        if credentials is None or not hmac.compare_digest(
            expected, hash_token(credentials.credentials)
        ):
            raise _unauthorized("The operator's token is required: Authorization: Bearer TOKEN.")

    return Depends(operator)


def _add_operator_routes(app: FastAPI, anonymizer: Anonymizer, restricted: _Restriction) -> None:
    @app.get("/status", response_model=Status, responses=error_responses(401), **restricted)
    async def status() -> Any:
        """Show sizes, counters and the progress of rebuilds."""
        return JSONResponse(asdict(anonymizer.status()))

    @app.post(
        "/rebuild",
        status_code=202,
        response_model=RebuildResponse,
        responses=error_responses(401, 409),
        **restricted,
    )
    def rebuild() -> Any:
        """Rebuild all cells in the background. Fails with 409 if there are fewer devices than k."""
        status = anonymizer.status()
        if status.devices < status.k:
            raise TooFewRecordsError(
                f"{count(status.devices, 'device')} cannot form a cell of k = {status.k}.",
                code="guarantee.too_few_records",
                records=status.devices,
                k=status.k,
            )
        anonymizer.rebuild()
        return JSONResponse({"rebuilding": True}, status_code=202)

    busy = Lock()

    @app.get(
        "/what-if", response_model=WhatIf, responses=error_responses(401, 409, 422), **restricted
    )
    def what_if(query: Annotated[WhatIfQuery, Query()]) -> Any:
        """Show how far devices would be from their locations under another k.

        Only one request is computed at a time.
        """
        if not busy.acquire(blocking=False):
            detail = "Another what-if computation is running. Try again later."
            raise HTTPException(429, detail, {"Retry-After": "2"})
        try:
            return JSONResponse(asdict(anonymizer.what_if(query.k)))
        finally:
            busy.release()


def _add_metrics_route(app: FastAPI, metrics: Metrics, access: _Restriction) -> None:
    text: _Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}

    @app.get("/metrics", response_class=_Text, responses=text | error_responses(401), **access)
    def show_metrics() -> Response:
        """Return counts and times for Prometheus."""
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE})


_GEOJSON = "application/geo+json"


class _GeoJson(JSONResponse):
    media_type = _GEOJSON


class _Text(Response):
    media_type = "text/plain"


async def _device_token(credentials: Annotated[_Credentials, Depends(_device_scheme)]) -> str:
    """Return the token of the request, which is not verified yet."""
    if credentials is None or not credentials.credentials:
        raise _unauthorized("The device's token is required: Authorization: Bearer TOKEN.")
    return credentials.credentials


def _unauthorized(detail: str) -> HTTPException:
    return HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})


def _to_json(place: Place | None) -> dict[str, float] | str:
    if place is None:
        return "waiting"
    return {"latitude": place.latitude, "longitude": place.longitude}


def _serve_file(file: PageFile) -> Callable[[], Any]:
    headers = {"Cache-Control": "no-cache"}

    async def serve_file() -> Response:
        return Response(file.body, media_type=file.media_type, headers=headers)

    return serve_file
