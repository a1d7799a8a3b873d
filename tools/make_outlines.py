"""``python tools/make_outlines.py countries-50m.json``: country outlines for the locations page.

Reads a TopoJSON file of the npm package world-atlas (Natural Earth, public domain), simplifies its
arcs and writes src/microcell/locations/page/world.json: arcs as differences in hundredths of a
degree, and countries as rings of arc numbers (~n is arc n reversed).
"""

import json
import sys
from pathlib import Path

import numpy as np

TOLERANCE = 0.06
"""Degrees by which a simplified outline may differ."""

SMALLEST = 0.25
"""Degrees; smaller islands are left out."""

UNITS = 100
OUTPUT = Path(__file__).parent.parent / "src/microcell/locations/page/world.json"
NOTE = (
    "Country outlines from Natural Earth (naturalearthdata.com, public domain) by way of the npm "
    "package world-atlas 2.0.2, simplified. Arcs are differences in hundredths of a degree."
)


def simplify(points):
    """Return the points that Douglas and Peucker's algorithm keeps."""
    kept = np.zeros(len(points), dtype=bool)
    kept[[0, -1]] = True
    stack = [(0, len(points) - 1)]
    while stack:
        first, last = stack.pop()
        if last - first < 2:
            continue
        start, end = points[first], points[last]
        along = end - start
        offsets = points[first + 1 : last] - start
        length = np.hypot(*along)
        if length == 0:
            away = np.hypot(*offsets.T)
        else:
            away = np.abs(offsets[:, 0] * along[1] - offsets[:, 1] * along[0]) / length
        farthest = int(np.argmax(away))
        if away[farthest] > TOLERANCE:
            middle = first + 1 + farthest
            kept[middle] = True
            stack += [(first, middle), (middle, last)]
    return points[kept]


def main(source):
    """Convert a TopoJSON file."""
    topology = json.loads(Path(source).read_text(encoding="utf-8"))
    scale, shift = (np.array(topology["transform"][name]) for name in ("scale", "translate"))
    arcs = [np.cumsum(arc, axis=0) * scale + shift for arc in topology["arcs"]]
    countries, used = [], {}
    for country in topology["objects"]["countries"]["geometries"]:
        polygons = country["arcs"] if country["type"] == "MultiPolygon" else [country["arcs"]]
        rings = [ring for polygon in polygons for ring in polygon]
        extents = [
            np.ptp(np.concatenate([arcs[max(a, ~a)] for a in r]), axis=0).max() for r in rings
        ]
        kept = [r for r, extent in zip(rings, extents, strict=True) if extent >= SMALLEST]
        kept = kept or [rings[int(np.argmax(extents))]]
        numbered = [
            [n if a >= 0 else ~n for a in ring for n in [used.setdefault(max(a, ~a), len(used))]]
            for ring in kept
        ]
        countries.append([country["properties"]["name"], numbered])
    lines = []
    for number in used:
        points = np.round(simplify(arcs[number]) * UNITS).astype(int)
        steps = np.diff(points, axis=0)
        points = np.concatenate([points[:1], points[1:][(steps != 0).any(axis=1)]])
        lines.append(np.diff(points, axis=0, prepend=0).ravel().tolist())
    content = {"note": NOTE, "units": UNITS, "arcs": lines, "countries": countries}
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    OUTPUT.write_text(text + "\n", encoding="utf-8")
    print(f"{OUTPUT.name}: {len(text):,} bytes, {len(lines)} arcs, {len(countries)} countries")


if __name__ == "__main__":
    main(sys.argv[1])
