"""The cells of a survey as one page that assigns in the browser: nothing fetched, nothing sent."""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from microcell.cells import Cells
from microcell.errors import OptionError

__all__ = ["ASSIGNING", "survey_page"]

ASSIGNING = ("power", "balls", "boxes")
"""The kinds of cells that the page can assign to."""


def survey_page(cells: Cells, *, title: str = "Find your cell") -> str:
    """An HTML page that asks for each quasi-identifier and shows the cell and what it publishes, ready to copy.

    All is in the page: the cells' file as it is, and functions that place a record as the encoding does and assign it
    as the cells do, to the last bit but for the sines of locations. The page checks the seal and the stated failures
    before it asks. A policy in it forbids any connection. Unknown categories and values far out get the nearest cell,
    and the page says so.

    Refused are cells that hold records (lookup), and cells of points, for which there is nothing to ask.

    Examples
    --------
    >>> import microcell as mc
    >>> people = {"age": [31, 33, 35, 60, 62, 64]}
    >>> cells = mc.anonymize(people, mc.Schema(quasi=["age"]), k=3, cells=True).cells
    >>> "connect" in survey_page(cells), "default-src 'none'" in survey_page(cells)
    (False, True)
    """
    if not isinstance(cells, Cells):
        raise OptionError(f"cells must be Cells, not {type(cells).__name__}. Load their file first.")
    if cells.kind not in ASSIGNING:
        raise OptionError(
            f"Cells of kind {cells.kind!r} hold the records that they were made of, and cannot be handed out. Design "
            f"the survey with cells of one of the kinds {', '.join(ASSIGNING)}."
        )
    if cells.encoding is None:
        raise OptionError("These cells were made of points, not of records: there is nothing to ask for.")
    script = "".join(_part(name) for name in ("survey_cells.js", "survey_page.js"))
    style = _part("survey_page.css")
    templates = Environment(loader=PackageLoader("microcell.reporting"), autoescape=True, undefined=StrictUndefined)
    return templates.get_template("survey_page.html").render(
        title=title,
        # A name may hold what ends a script; as an escape it is the same JSON.
        cells=cells.to_json().strip().replace("<", "\\u003c"),
        script=script,
        style=style,
        script_hash=_hash_of(script),
        style_hash=_hash_of(style),
    )


def _part(name: str) -> str:
    return (files("microcell.reporting") / "templates" / name).read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    """How a page's policy names the one script or style that it allows."""
    return f"sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode('ascii')}"
