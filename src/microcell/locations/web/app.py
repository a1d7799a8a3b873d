"""Routes of the web interface."""

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.resources import files
from threading import Lock
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, FastAPI, Header, HTTPException, Query, Response
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from microcell import __version__
from microcell._display import count
from microcell.errors import TooFewRecordsError
from microcell.locations.anonymizer import Anonymizer
from microcell.locations.clustering import Clustering
from microcell.locations.polygons import cell_polygons
from microcell.locations.publication import lower_band, separate_areas
from microcell.locations.records import (
    Answer,
    CellSummary,
    Overview,
    Place,
    Publication,
    Status,
    WhatIf,
)
from microcell.locations.vault import hash_token
from microcell.locations.web.metrics import CONTENT_TYPE, Metrics
from microcell.locations.web.middleware import App, Middleware, Settings
from microcell.locations.web.models import (
    CellCollection,
    Health,
    History,
    Location,
    LookUpResponse,
    PublicHistory,
    RebuildResponse,
    SignUpResponse,
    WaitQuery,
    WhatIfQuery,
    error_responses,
    handle_errors,
    tidy_openapi,
)

__all__ = ["CellDocument", "CellMap", "Changes", "PageFile", "create_app", "page_files"]

MAX_WAITING = 10_000
"""Number of look-ups that may wait for a change; further ones are answered immediately."""


@dataclass(frozen=True)
class CellDocument:
    """All cells as GeoJSON text, and an entity tag that changes with it."""

    body: bytes
    tag: str


class CellMap:
    """Builder of GeoJSON, which builds the document of each publication once."""

    def __init__(self, anonymizer: Anonymizer) -> None:
        self._anonymizer = anonymizer
        self._lock = Lock()
        self._current: tuple[Overview, CellDocument] | None = None

    def document(self) -> CellDocument:
        """Return the last publication, whose cells and figures belong together."""
        with self._lock:
            overview, clustering = self._anonymizer.published()
            if self._current is None or self._current[0] is not overview:
                body = _to_geojson(overview, _draw_shapes(clustering, len(overview.cells))).encode()
                digest = hashlib.blake2b(body, digest_size=12).hexdigest()
                document = CellDocument(body, f'"{overview.generation}-{digest}"')
                self._current = (overview, document)
            return self._current[1]


class Changes:
    """Wake requests that wait for the next publication."""

    def __init__(self, anonymizer: Anonymizer) -> None:
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = set()
        anonymizer.listen(self._wake)

    async def wait(self, changed: Callable[[], bool], seconds: float) -> None:
        """Wait until ``changed`` is true, at most this many seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while len(self._waiting) < MAX_WAITING and loop.time() < until:
            entry = (loop, loop.create_future())
            self._waiting.add(entry)
            try:
                # Registered first, so that no change goes unnoticed in between.
                if changed():
                    return
                with suppress(TimeoutError):
                    await asyncio.wait_for(entry[1], until - loop.time())
            finally:
                self._waiting.discard(entry)

    def _wake(self) -> None:
        for loop, future in list(self._waiting):
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_finish, future)


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _draw_shapes(clustering: Clustering | None, count: int) -> list[str]:
    """Return the polygons as text. Areas far apart are drawn separately, without the oceans."""
    shapes = ["null"] * count
    if clustering is None or count == 0:
        return shapes
    areas = separate_areas(clustering.sites.centroids, _FAR_APART)
    area_of = np.empty(len(clustering.sites), dtype=np.int64)
    for number, sites in enumerate(areas):
        area_of[sites] = number
    # A merged cell may join areas.
    firsts = np.full(count, len(areas), dtype=np.int64)
    np.minimum.at(firsts, clustering.cell_of, area_of)
    if (firsts[clustering.cell_of] != area_of).any():
        area_of[:] = 0
    for number in np.unique(area_of).tolist():
        part, cells = clustering.part(np.flatnonzero(area_of == number))
        for cell, shape in zip(cells.tolist(), cell_polygons(part), strict=True):
            shapes[cell] = json.dumps(shape, separators=(",", ":"), allow_nan=False)
    return shapes


_FAR_APART = 300.0
"""Kilometres; cells that are farther apart are not drawn as neighbours."""


def _to_geojson(overview: Overview, shapes: list[str]) -> str:
    """Return the collection as text, inserting the long polygons, which are already text."""
    properties = {
        "k": overview.k,
        "devices": overview.devices,
        "waiting": overview.waiting,
        "smallest_cell": overview.smallest_cell,
        "rebuilt_at": overview.rebuilt_at,
        "published_at": overview.published_at,
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
        "at_least": cell.at_least,
        "below": cell.below,
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
share, under an alias whose whole history at least k devices share.

Published data change only on the service's clock, and only if every difference from any earlier
publication involves enough devices. `GET /cells` returns the last publication, `GET /publications`
the smallest shared history over time.
"""

_device_scheme = HTTPBearer(
    auto_error=False, scheme_name="device", description="Token of the device from sign-up."
)
_operator_scheme = HTTPBearer(
    auto_error=False, scheme_name="operator", description="Token of the operator of the service."
)
_Credentials = HTTPAuthorizationCredentials | None
_Responses = dict[int | str, dict[str, Any]]
_ETAG = {
    "headers": {"ETag": {"schema": {"type": "string"}, "description": "Changes with the content."}}
}
_TAGGED: _Responses = {200: _ETAG, 304: {"description": "Not modified.", **_ETAG}}
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
    changes = Changes(anonymizer)

    @app.get(
        "/devices/{pseudonym}/location",
        response_model=LookUpResponse,
        responses=_TAGGED | errors | error_responses(422),
        tags=["devices"],
    )
    async def look_up(
        pseudonym: str,
        query: Annotated[WaitQuery, Query()],
        credentials: Annotated[_Credentials, Depends(_device_scheme)],
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> Any:
        """Look up the location to use; with `If-None-Match` and `wait`, wait for a new one."""
        # Called directly: each further dependency takes a quarter of the time of a look-up.
        token = await _device_token(credentials)
        answer = anonymizer.look_up(pseudonym, token)
        tags = _tags(if_none_match)
        if query.wait > 0 and f'"{answer.tag}"' in tags:
            await changes.wait(
                lambda: f'"{anonymizer.look_up(pseudonym, token).tag}"' not in tags, query.wait
            )
            answer = anonymizer.look_up(pseudonym, token)
        headers = {"ETag": f'"{answer.tag}"', "Cache-Control": _validity(answer)}
        if f'"{answer.tag}"' in tags:
            return Response(status_code=304, headers=headers)
        return JSONResponse(_answer_json(answer), headers=headers)

    @app.put(
        "/devices/{pseudonym}/location",
        response_model=LookUpResponse,
        responses=errors | error_responses(422),
        tags=["devices"],
    )
    def move(pseudonym: str, place: Location, token: Annotated[str, Depends(_device_token)]) -> Any:
        """Move a device; the answer stays the same until the next publication."""
        return JSONResponse(
            _answer_json(anonymizer.move(pseudonym, token, place.latitude, place.longitude))
        )


def _tags(if_none_match: str | None) -> list[str]:
    return [] if if_none_match is None else [tag.strip() for tag in if_none_match.split(",")]


def _validity(answer: Answer) -> str:
    """Return a Cache-Control header: an answer is valid until the next publication."""
    if answer.valid_until is None:
        return "private, no-cache"
    return f"private, max-age={max(0, int(answer.valid_until - time.time()))}"


def _answer_json(answer: Answer) -> dict[str, Any]:
    return {
        "location": _to_json(answer.location),
        "accuracy": answer.accuracy,
        "alias": answer.alias,
        "generation": answer.generation,
        "valid_until": answer.valid_until,
        "pending": answer.pending,
    }


def _add_public_routes(app: FastAPI, anonymizer: Anonymizer) -> None:
    cells = CellMap(anonymizer)

    @app.get(
        "/cells",
        response_model=CellCollection,
        response_class=_GeoJson,
        responses=_TAGGED | error_responses(),
    )
    def list_cells(if_none_match: Annotated[str | None, Header()] = None) -> Response:
        """List the published cells: places, size bands, radii and polygons, but not members."""
        document = cells.document()
        headers = {"ETag": document.tag, "Cache-Control": "no-cache"}
        if document.tag in _tags(if_none_match):
            return Response(status_code=304, headers=headers)
        return Response(document.body, media_type=_GEOJSON, headers=headers)

    @app.get("/publications", response_model=PublicHistory, responses=error_responses())
    def list_publications() -> Any:
        """List recent publications with rounded figures."""
        k = anonymizer.overview().k
        figures = [_rounded(publication, k) for publication in anonymizer.publications()]
        return JSONResponse(
            {
                "k": k,
                "next_publication_at": anonymizer.next_publication_at,
                "publications": figures,
            }
        )

    @app.get("/health", response_model=Health, responses=error_responses())
    async def health() -> Any:
        """Confirm that the service responds."""
        return JSONResponse({"status": "ok"})


def _rounded(publication: Publication, k: int) -> dict[str, Any]:
    """Return the public figures of a publication, rounded."""
    smallest, history = publication.smallest_cell, publication.k_over_history
    return {
        "generation": publication.generation,
        "at": publication.at,
        "devices": publication.devices // k * k,
        "waiting": publication.waiting // k * k,
        "cells": publication.cells,
        "smallest_cell": None if smallest is None else lower_band(smallest, k),
        "k_over_history": None if history is None else lower_band(history, k),
        "rebuilt": publication.rebuilt,
    }


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
        """Show sizes, counters, publications and alarms."""
        return JSONResponse(asdict(anonymizer.status()))

    @app.get("/history", response_model=History, responses=error_responses(401), **restricted)
    async def history() -> Any:
        """List recent publications with exact figures."""
        figures = [asdict(publication) for publication in anonymizer.publications()]
        return JSONResponse({"publications": figures})

    @app.post(
        "/rebuild",
        status_code=202,
        response_model=RebuildResponse,
        responses=error_responses(401, 409),
        **restricted,
    )
    def rebuild() -> Any:
        """Rebuild all cells at the next publication; 409 if there are fewer than k devices."""
        status = anonymizer.status()
        if status.devices < status.k:
            raise TooFewRecordsError(
                f"{count(status.devices, 'device')} cannot form a cell of k = {status.k}.",
                code="guarantee.too_few_records",
                records=status.devices,
                k=status.k,
            )
        anonymizer.rebuild()
        return JSONResponse({"requested": True}, status_code=202)

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
