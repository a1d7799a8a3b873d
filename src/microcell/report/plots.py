"""The figure of an allocation: a map where two coordinates make one, else how far points go, how full centres are."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from microcell.errors import DataError, OptionError
from microcell.kernels.diagram import Polygons, clip_diagram, hulls
from microcell.kernels.transport import choose_cells
from microcell.model import Floats, Integers

__all__ = [
    "FIGURE_FORMS",
    "Allotment",
    "CellMap",
    "DesignFacts",
    "Mark",
    "RiskMap",
    "Scale",
    "SizeCurve",
    "Span",
    "Spot",
    "Timeline",
    "Tradeoff",
    "choose_colours",
    "compose_design",
    "draw_allocation",
    "draw_cellmaps",
    "draw_map",
    "draw_marks",
    "draw_sizes",
    "draw_timeline",
    "draw_tradeoffs",
    "find_dearest",
    "find_limits",
    "outlines",
    "sample_rows",
]

FIGURE_FORMS = ("svg", "png", "pdf")


@dataclass(frozen=True)
class Mark:
    """A method's distortion and time for one k."""

    method: str
    k: int
    seconds: float
    distortion: float


def draw_marks(marks: Sequence[Mark], form: str) -> bytes:
    """The contents of a file of that form: distortion against seconds."""
    if form not in FIGURE_FORMS:
        raise OptionError(f"No figure form {form!r}; choose one of {', '.join(FIGURE_FORMS)}.")
    if not marks:
        raise OptionError(
            "There is nothing to draw: none of the methods could be used. Name others."
        )
    # Named and not imported: loading matplotlib would slow every start.
    figures = import_module("microcell.report.figures")
    return cast("Callable[[Sequence[Mark], str], bytes]", figures.draw_marks)(marks, form)


@dataclass(frozen=True)
class Tradeoff:
    """The two distortions for one k and one weight of dependence, and their changes relative to the weight 0."""

    k: int
    dependence: float
    distortion: float
    loss: float
    distortion_increment: float
    loss_increment: float


def draw_tradeoffs(points: Sequence[Tradeoff], form: str) -> bytes:
    """The contents of a file of that form: D_Y against D_X, and the relative changes beside it."""
    if form not in FIGURE_FORMS:
        raise OptionError(f"No figure form {form!r}; choose one of {', '.join(FIGURE_FORMS)}.")
    # Named and not imported: loading matplotlib would slow every start.
    figures = import_module("microcell.report.figures.sweeps")
    return cast("Callable[[Sequence[Tradeoff], str], bytes]", figures.draw_tradeoffs)(points, form)


@dataclass(frozen=True)
class Span:
    """A step of a line: what is done, from when to when, in seconds; ``lane`` is the line's name."""

    lane: str
    name: str
    begins: float
    ends: float


@dataclass(frozen=True)
class Timeline:
    """What is drawn: the spans, when the data end, the times to point out by name, and the deadline if there is one."""

    spans: tuple[Span, ...]
    data_end: float
    marks: tuple[tuple[str, float], ...] = ()
    deadline: float | None = None


def draw_timeline(timeline: Timeline, form: str) -> bytes:
    """The contents of a file of that form: bars over time, a line for each lane."""
    if form not in FIGURE_FORMS:
        raise OptionError(f"No figure form {form!r}; choose one of {', '.join(FIGURE_FORMS)}.")
    # Named and not imported: loading matplotlib would slow every start.
    figures = import_module("microcell.report.figures.sweeps")
    return cast("Callable[[Timeline, str], bytes]", figures.draw_timeline)(timeline, form)


@dataclass(frozen=True)
class Spot:
    """A method's risk and loss for one k: whether it meets all limits, is on the frontier, is the one to take."""

    method: str
    k: int
    risk: float
    loss: float
    meets: bool = True
    frontier: bool = False
    recommended: bool = False


@dataclass(frozen=True)
class Scale:
    """The measure of an axis: its name, which way is better, and its limit if it has one."""

    name: str
    lower_is_better: bool = True
    limit: float | None = None


@dataclass(frozen=True)
class RiskMap:
    """What is drawn: the spots, and the scales of risk and loss."""

    spots: tuple[Spot, ...]
    risk: Scale
    loss: Scale


def draw_map(riskmap: RiskMap, form: str) -> bytes:
    """The contents of a file of that form: risk against loss."""
    if form not in FIGURE_FORMS:
        raise OptionError(f"No figure form {form!r}; choose one of {', '.join(FIGURE_FORMS)}.")
    # Named and not imported: loading matplotlib would slow every start.
    figures = import_module("microcell.report.figures")
    return cast("Callable[[RiskMap, str], bytes]", figures.draw_map)(riskmap, form)


_KINDS = {
    "power": "power cells, found by the respondent's device",
    "balls": "ball cells, found by the respondent's device",
    "lookup": "lookup cells, which hold the candidates' records",
    "boxes": "boxes, found by hand on a printed form",
}


@dataclass(frozen=True)
class SizeCurve:
    """What is drawn: the size of a cell for each failure rate, and the pair that was asked for."""

    k: int
    participation: float
    rates: tuple[float, ...]
    sizes: tuple[int, ...]
    asked: tuple[float, int]


@dataclass(frozen=True, eq=False)
class DesignFacts:
    """What a report tells of: the manifest of a design, and the failure and the size of each cell."""

    manifest: Mapping[str, Any]
    failures: Floats
    sizes: Integers


def draw_sizes(curve: SizeCurve, form: str) -> bytes:
    """The contents of a file of that form: the size of a cell against the failure rate."""
    if form not in FIGURE_FORMS:
        raise OptionError(f"No figure form {form!r}; choose one of {', '.join(FIGURE_FORMS)}.")
    # Named and not imported: loading matplotlib would slow every start.
    figures = import_module("microcell.report.figures.surveys")
    return cast("Callable[[SizeCurve, str], bytes]", figures.draw_sizes)(curve, form)


def compose_design(facts: DesignFacts) -> str:
    """The report of a design as one page in HTML: no script, nothing fetched, and no value of the frame."""
    figures = import_module("microcell.report.figures.surveys")
    templates = Environment(
        loader=PackageLoader("microcell.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("design.html").render(
        sentence=_promise(facts.manifest),
        facts=list(_facts(facts.manifest)),
        table=list(_table(facts.manifest)),
        costs=list(_costs(facts.manifest)),
        making=list(_making(facts.manifest)),
        pictures=[figures.draw_failures(facts), figures.draw_cell_sizes(facts)],
    )


def _promise(manifest: Mapping[str, Any]) -> str:
    k, cells = manifest["k"], manifest["cells"]
    return (
        f"In each of the {cells['count']:,} cells, {k:,} or more take part, or nobody, but for a probability of at "
        f"most {cells['failure']['largest']:.4g} (accepted: {manifest['failure']:.4g})."
    )


def _facts(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    cells, who = manifest["cells"], manifest["participation"]
    common = who["common"]
    yield (
        "Candidates",
        f"{manifest['candidates']['designed']:,} of {manifest['candidates']['in']:,} in the frame",
    )
    yield (
        "Participation",
        f"{100 * common:.4g} % for all"
        if common is not None
        else f"of each its own, {100 * who['mean']:.4g} % on average",
    )
    yield "Cells", f"{cells['count']:,} of {cells['smallest']:,} to {cells['largest']:,} candidates"
    expected = cells["expected_participants"]
    yield (
        "Expected participants",
        f"{expected['mean']:.4g} a cell on average, {expected['least']:.4g} in the least",
    )
    yield "Kind", _KINDS[manifest["kind"]]


def _table(manifest: Mapping[str, Any]) -> Iterator[tuple[str, float, str]]:
    table, cells = manifest["table"], manifest["cells"]["failure"]
    yield (
        "Cell failure, worst",
        cells["largest"],
        "The probability that 1 to k-1 take part in the worst cell.",
    )
    yield "Cell failure, median", cells["median"], "The same for the cell in the middle."
    yield "Table failure", table["table_failure"], "The probability that any cell fails."
    yield "Unprotected", table["unprotected"], "Participants in a cell that fails, on average."
    yield (
        "Record failure",
        table["record_failure"],
        "That a candidate takes part and the cell fails, on average.",
    )
    yield (
        "Participant failure",
        table["participant_failure"],
        "The same for someone who does take part.",
    )


def _costs(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    certainty = manifest["certainty"]
    yield "Expected distortion", f"{manifest['distortion']:.4g}"
    if certainty["ratio"] is None:
        return
    yield (
        "Were all sure to take part",
        f"{certainty['distortion']:.4g}, at the same k = {manifest['k']}",
    )
    yield "What uncertainty costs", f"{certainty['ratio']:.3g} times the distortion"
    if certainty["candidates"] < manifest["candidates"]["designed"]:
        yield "Compared on", f"{certainty['candidates']:,} candidates who lie together"


def _making(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Quasi-identifiers", ", ".join(manifest["columns"])
    yield (
        "Method",
        f"{manifest['method']}, seed {manifest['seed']}, missing values: {manifest['missing']}",
    )
    yield "Made by", f"microcell {manifest['microcell']}, {manifest['created']}"
    yield "Frame, SHA-256", str(manifest["frame"]["sha256"])
    yield "Cells, SHA-256", str(manifest["cells_sha256"])


_DOTS = 5_000
_ROOM = 0.02
_TOUCHING = 1e-3
_CLOSE = 0.5
"""Gaps, as shares of the longer side of the smaller cell: touching cells must differ in colour, close ones should."""


@dataclass(frozen=True, eq=False)
class CellMap:
    """A panel: records in the plane, their cells and the cells' centroids, with what to write above."""

    title: str
    points: Floats
    """(n, 2)."""
    labels: Integers
    """(n,): the cell of each record."""
    centroids: Floats
    """(Q, 2)."""
    polygons: Polygons | None
    """The outline of each cell, or None to draw none."""
    subtitle: str = ""
    tied: bool = False
    """True to draw a line from the mean of a cell's records to its centroid: where that may lie outside of the cell."""

    def __post_init__(self) -> None:
        if self.points.ndim != 2 or self.points.shape[1] != 2:
            raise DataError(
                f"A map needs records in two dimensions; these have the shape {self.points.shape}."
            )
        if len(self.labels) != len(self.points):
            raise DataError(
                f"There are {len(self.labels):,} labels for {len(self.points):,} records; give one each."
            )
        count = len(self.centroids)
        if self.centroids.shape != (count, 2) or (len(self.labels) and self.labels.max() >= count):
            raise DataError(
                "A map needs a centroid in two dimensions for each cell that the labels name."
            )
        if self.polygons is not None and len(self.polygons.starts) != count + 1:
            raise DataError(
                f"There are {len(self.polygons.starts) - 1:,} polygons for {count:,} cells; give one each."
            )


def draw_cellmaps(
    maps: Sequence[CellMap], form: str, *, axes: tuple[str, str] = ("", ""), aspect: float = 1.0
) -> bytes:
    """The contents of a file of that form: the maps side by side, on the same scale.

    Parameters
    ----------
    maps : sequence of CellMap
        One to three look best.
    form : {"svg", "png", "pdf"}
    axes : (str, str)
        The names of x and y; an axis without a name has no numbers either.
    aspect : float
        How long a unit of y is drawn, in units of x.

    Notes
    -----
    At most 5,000 records are drawn in a panel. The same maps give the same file, byte for byte.
    """
    if form not in FIGURE_FORMS:
        raise OptionError(f"No figure form {form!r}; choose one of {', '.join(FIGURE_FORMS)}.")
    if not maps:
        raise OptionError("There is nothing to draw: give one map or more.")
    # Named and not imported: loading matplotlib would slow every start.
    figures = import_module("microcell.report.figures")
    draw = cast(
        "Callable[[Sequence[CellMap], str, tuple[str, str], float], bytes]", figures.draw_cellmaps
    )
    return draw(maps, form, axes, aspect)


def outlines(polygons: Polygons) -> list[Floats]:
    """The vertices of each polygon, an array each."""
    return np.split(polygons.vertices, polygons.starts[1:-1])


def sample_rows(n: int) -> Integers:
    """The rows to draw: all, or 5,000 at random, the same ones every time."""
    if n <= _DOTS:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, _DOTS, replace=False))


def find_limits(maps: Sequence[CellMap]) -> Floats:
    """The least x and y, and the greatest, one row each: around all polygons, and with some room around all points."""
    points = np.concatenate([shape for item in maps for shape in (item.points, item.centroids)])
    outline = np.concatenate(
        [points[:0], *(item.polygons.vertices for item in maps if item.polygons is not None)]
    )
    room = _ROOM * (np.max(np.ptp(points, axis=0)) or 1.0)
    around = np.concatenate([points - room, points + room, outline])
    return np.array([around.min(axis=0), around.max(axis=0)])


def choose_colours(item: CellMap, count: int) -> Integers:
    """The number of a colour for each cell, such that neighbours differ.

    Cells are coloured in reverse order of leaving the graph of neighbours, fewest neighbours first (Matula and Beck,
    1983): in a plane map each then meets at most five that are coloured, so that six colours always do. Should none be
    left, where hulls overlap, the rarest next door is taken; of several, the rarest among cells close by, then of all.
    """
    shapes = outlines(hulls(item.points, item.labels) if item.polygons is None else item.polygons)
    touching, close = _find_neighbours(shapes, _TOUCHING), _find_neighbours(shapes, _CLOSE)
    colours = np.zeros(len(item.centroids), dtype=np.int64)
    used = np.zeros(
        (len(shapes) + 1, count), dtype=np.int64
    )  # a row for each cell, its colour marked; the last for all
    for cell in _order_cells(touching):
        around, nearby = used[touching[cell]].sum(axis=0), used[close[cell]].sum(axis=0)
        colours[cell] = np.lexsort((used[-1], nearby, around))[0]
        used[cell, colours[cell]] = 1
        used[-1, colours[cell]] += 1
    return colours


def _order_cells(near: list[list[int]]) -> list[int]:
    """The cells, last the one with the fewest neighbours, before it the one with the fewest among the others, ..."""
    degrees = np.array([len(others) for others in near], dtype=np.int64)
    gone = np.iinfo(np.int64).max
    order = []
    for _ in near:
        cell = int(degrees.argmin())
        order.append(cell)
        degrees[cell] = gone
        for other in near[cell]:
            degrees[other] -= degrees[other] != gone
    return order[::-1]


def _find_neighbours(shapes: list[Floats], share: float) -> list[list[int]]:
    """The polygons that overlap each polygon, or come nearer than a share of the smaller one's side. O(Q^2) time."""
    near: list[list[int]] = [[] for _ in shapes]
    shown = [place for place, shape in enumerate(shapes) if len(shape)]
    if not shown:
        return near
    lows = np.array([shapes[place].min(axis=0) for place in shown])
    highs = np.array([shapes[place].max(axis=0) for place in shown])
    sides = (highs - lows).max(axis=1)
    for at, place in enumerate(shown):
        margins = share * np.minimum(sides, sides[at])
        apart = np.maximum(lows - highs[at], lows[at] - highs).max(axis=1)
        for other in (at + 1 + np.flatnonzero(apart[at + 1 :] <= margins[at + 1 :])).tolist():
            one, two = shapes[place], shapes[shown[other]]
            if max(_gap(one, two), _gap(two, one)) <= margins[other]:
                near[place].append(shown[other])
                near[shown[other]].append(place)
    return near


def _gap(one: Floats, two: Floats) -> float:
    """How far the second polygon stays beyond an edge of the first, at most; negative where no edge parts them."""
    edges = np.roll(one, -1, axis=0) - one
    lengths = np.hypot(edges[:, 0], edges[:, 1])
    edges, corners = edges[lengths > 0] / lengths[lengths > 0, None], one[lengths > 0]
    if not len(edges):
        return -np.inf
    normals = np.stack([edges[:, 1], -edges[:, 0]], axis=1)
    beyond = normals @ two.T - np.sum(normals * corners, axis=1)[:, None]
    return float(beyond.min(axis=1).max())


_BARS = 30

_THINNEST = 0.1
"""A map of less height to its width, or width to its height, shows nothing."""
_AGREEMENT = 0.95
"""The earth is flat enough for a map if at least this share of the points lies in the polygon of its own centre."""


@dataclass(frozen=True, eq=False)
class Allotment:
    """What there is to draw of an allocation."""

    title: str
    subtitle: str
    points: Floats
    """(n, m): as distances were measured between them; latitude and longitude in degrees if ``radius`` is given."""
    sites: Floats
    """(Q, m)."""
    costs: Floats
    labels: Integers
    distances: Floats
    nearest: Floats
    """(n,): the distance to the nearest centre, whatever its places."""
    names: Sequence[str]
    loads: Integers
    places: Integers
    axes: Sequence[str]
    """The name of each coordinate."""
    unit: str
    radius: float | None = None
    """Of the earth, if points are on it."""


@dataclass(frozen=True, eq=False)
class _Sheet:
    """A map, the names of its axes, and how long a unit of y is drawn."""

    map: CellMap
    axes: tuple[str, str]
    aspect: float = 1.0


def draw_allocation(given: Allotment, form: str) -> bytes:
    """The contents of a file of that form ("svg", "png" or "pdf").

    In two dimensions, the polygon of each centre, where its squared distance plus cost is the least, and the points.
    On the earth, longitude and latitude, the polygons made in a plane of kilometres around the middle of the points;
    where that plane is too wide for it, and in other dimensions, the distances and the loads.
    """
    if form not in FIGURE_FORMS:
        raise OptionError(f"No figure form {form!r}; choose one of {', '.join(FIGURE_FORMS)}.")
    sheet = _lay_out(given)
    if sheet is not None:
        return draw_cellmaps([sheet.map], form, axes=sheet.axes, aspect=sheet.aspect)
    # Named and not imported: loading matplotlib would slow every start.
    figures = import_module("microcell.report.figures")
    return cast("Callable[[Allotment, str], bytes]", figures.draw_allotment)(given, form)


def find_dearest(given: Allotment) -> Integers:
    """The centres to show, in their order: all, or those of the highest costs, of several the fullest."""
    order = np.lexsort((-given.loads / given.places, -given.costs))
    return np.sort(order[:_BARS])


def _lay_out(given: Allotment) -> _Sheet | None:
    """The map, if there is one."""
    if given.points.shape[1] != 2:
        return None
    if given.radius is not None:
        return _lay_out_earth(given, given.radius)
    polygons = _find_polygons(given.points, given.sites, given.costs, np.ones(2))
    if polygons is None:
        return None
    return _Sheet(
        _as_map(given, given.points, given.sites, polygons), (given.axes[0], given.axes[1])
    )


def _lay_out_earth(given: Allotment, radius: float) -> _Sheet | None:
    plane = _Plane.around(given.points, radius)
    points, sites = plane.project(given.points), plane.project(given.sites)
    agree = choose_cells(points, sites, given.costs) == given.labels
    polygons = _find_polygons(points, sites, given.costs, plane.kilometres)
    if polygons is None or np.mean(agree) < _AGREEMENT:
        return None
    degrees = Polygons(plane.degrees(polygons.vertices), polygons.starts)
    shown = _as_map(given, plane.degrees(points), plane.degrees(sites), degrees)
    return _Sheet(shown, (given.axes[1], given.axes[0]), plane.aspect)


@dataclass(frozen=True)
class _Plane:
    """Kilometres east and north of a place (equirectangular)."""

    latitude: float
    longitude: float
    radius: float

    @classmethod
    def around(cls, places: Floats, radius: float) -> "_Plane":
        """The plane around the mean latitude, and the mean longitude as a direction."""
        turns = np.radians(places[:, 1])
        east = np.degrees(np.arctan2(np.sin(turns).mean(), np.cos(turns).mean()))
        return cls(float(places[:, 0].mean()), float(east), radius)

    @property
    def aspect(self) -> float:
        """How long a degree of latitude is, in degrees of longitude."""
        return 1.0 / max(float(np.cos(np.radians(self.latitude))), 1e-3)

    @property
    def kilometres(self) -> Floats:
        """How long a degree of longitude is, and one of latitude."""
        degree = float(np.radians(self.radius))
        return np.array([degree / self.aspect, degree])

    def project(self, places: Floats) -> Floats:
        """Latitude and longitude in kilometres east and north, the shorter way round."""
        east = (places[:, 1] - self.longitude + 180) % 360 - 180
        return self.kilometres * np.stack([east, places[:, 0] - self.latitude], axis=1)

    def degrees(self, points: Floats) -> Floats:
        """Longitude and latitude, in this order, of points of the plane."""
        return np.array([self.longitude, self.latitude]) + points / self.kilometres


def _find_polygons(points: Floats, sites: Floats, costs: Floats, units: Floats) -> Polygons | None:
    """The polygons in a box around all, or None if it is too thin for a map; ``units`` are those of the axes."""
    everything = np.concatenate([points, sites])
    low, high = everything.min(axis=0), everything.max(axis=0)
    extent = high - low
    if extent.min() < _THINNEST * extent.max() or extent.max() == 0:
        return None
    room = _ROOM * np.max(extent / units) * units
    return clip_diagram(sites, costs, np.concatenate([low - room, high + room]))


def _as_map(given: Allotment, points: Floats, sites: Floats, polygons: Polygons) -> CellMap:
    return CellMap(given.title, points, given.labels, sites, polygons, given.subtitle, tied=True)
