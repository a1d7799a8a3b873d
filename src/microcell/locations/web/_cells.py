"""The cells as GeoJSON, put together once for each state they are in."""

import json
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock

from microcell.locations._anonymizer import Anonymizer
from microcell.locations._clustering import Clustering
from microcell.locations._nouns import CellSummary, Overview
from microcell.locations._polygons import geometries

__all__ = ["CellMap", "CellPage"]


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
    return [json.dumps(shape, separators=(",", ":"), allow_nan=False) for shape in geometries(clustering)]


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
