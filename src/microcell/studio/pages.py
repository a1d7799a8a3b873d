"""Pages: Jinja templates and static files, without inline scripts or styles."""

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from microcell._display import percent

__all__ = ["STEPS", "render", "static_files"]

STEPS = (
    ("read", "Read"),
    ("columns", "Columns"),
    ("prepare", "Prepare"),
    ("goal", "Goal"),
    ("explore", "Explore"),
    ("run", "Run"),
    ("result", "Result"),
    ("hand-over", "Hand over"),
    ("history", "History"),
)
"""The screens of a project, in order, and their headings."""

ROLE_LABELS = {
    "": "not chosen",
    "identifier": "identifier: removed",
    "person": "person: counted, then removed",
    "quasi": "quasi-identifier: replaced by the cell's value",
    "confidential": "confidential: published unchanged",
    "strata": "stratum: never mixed, published unchanged",
    "weight": "sampling weight",
    "keep": "other: published unchanged",
    "drop": "other: removed",
}

_MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def render(name: str, **content: Any) -> str:
    """Return a page."""
    return _environment().get_template(name).render(**content)


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """Return the content and media type of each static file by name."""
    folder = files("microcell.studio").joinpath("static")
    return {
        item.name: (item.read_bytes(), _MEDIA_TYPES[f".{item.name.rpartition('.')[2]}"])
        for item in folder.iterdir()
        if f".{item.name.rpartition('.')[2]}" in _MEDIA_TYPES
    }


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("microcell.studio"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    environment.filters["thousands"] = lambda number: f"{number:,}"
    environment.filters["size"] = _file_size
    environment.globals["steps"] = STEPS
    environment.globals["role_labels"] = ROLE_LABELS
    environment.globals["bars"] = _bars
    environment.globals["chart"] = _chart
    return environment


def _file_size(number: int) -> str:
    """Return a number of bytes for people.

    Examples
    --------
    >>> _file_size(900), _file_size(123_456)
    ('900 B', '123 kB')
    """
    amount, unit = float(number), "B"
    for larger in ("kB", "MB", "GB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.3g} {unit}"


def _bars(counts: list[int]) -> list[dict[str, float]]:
    """Return the bars of a histogram in a drawing of 120 by 32."""
    if not counts:
        return []
    width, highest = 120 / len(counts), max(counts)
    return [
        {
            "x": round(i * width + 0.5, 2),
            "width": round(max(width - 1, 0.5), 2),
            "height": round(30 * count / highest, 2),
            "y": round(31 - 30 * count / highest, 2),
        }
        for i, count in enumerate(counts)
    ]


def _chart(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return where each point of an exploration lies in a drawing of 600 by 300."""
    shown = [point for point in points if not point["skipped"]]
    if not shown:
        return []
    most_loss = max(point["loss"] for point in shown) or 1.0
    most_risk = max(point["risk"] for point in shown) or 1.0
    return [
        {
            **point,
            "x": round(70 + 490 * point["loss"] / most_loss, 1),
            "y": round(260 - 220 * point["risk"] / most_risk, 1),
        }
        for point in shown
    ]
