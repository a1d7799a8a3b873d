"""Short displays of records: a one-line ``repr``, a one-screen HTML card, and data frames.

The generated ``repr`` of a dataclass prints every array and frame it holds, which puts original
records into notebooks, logs and tracebacks. Public records use these helpers instead and pass
only counts, settings and names of columns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from html import escape
from numbers import Integral, Real
from pathlib import Path
from typing import Any

__all__ = [
    "MAX_LENGTH",
    "count",
    "format_number",
    "format_quantity",
    "frame_of_rows",
    "html_card",
    "listing",
    "make_frame",
    "number_range",
    "percent",
    "record_html",
    "record_repr",
    "short_repr",
]

MAX_LENGTH = 240
"""Longest ``repr`` of a record, in characters."""

MAX_ROWS = 20
"""Maximum number of rows of a card, so that it fits on one screen."""


_BOOLEANS = ("bool", "bool_")
"""Names of boolean types. NumPy's is listed by name, because ``--help`` must not load NumPy."""

_SAFE_TEXTS = (
    "dimensions",
    "kind",
    "method",
    "name",
    "publish",
    "rest",
    "role",
    "storage",
    "strategy",
    "suffix",
    "unit",
    "used",
)
"""Fields whose text is a name or a setting, and never a value of a table."""


def record_repr(record: Any) -> str:
    """Return a ``repr`` for a dataclass: numbers, settings, and the size of everything else.

    Assign it in the class: ``__repr__ = record_repr``.
    """
    facts = _facts(record)
    return short_repr(
        record,
        *(f"{name}[{text}]" if is_size else f"{name}={text}" for name, text, is_size in facts),
    )


def record_html(record: Any) -> str:
    """Return a card for a dataclass, with the facts that :func:`record_repr` shows.

    Assign it in the class: ``_repr_html_ = record_html``.
    """
    rows = {
        name.replace("_", " ").capitalize(): f"[{text}]" if is_size else text
        for name, text, is_size in _facts(record)
    }
    return html_card(type(record).__name__, rows)


def _facts(record: Any) -> Iterator[tuple[str, str, bool]]:
    """Yield the name and text of each field to show, and whether the text is a size."""
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name.startswith("_") or value is None:
            continue
        if isinstance(value, Real) or type(value).__name__ in _BOOLEANS:
            yield field.name, _plain(value), False
        elif isinstance(value, str):
            if field.name in _SAFE_TEXTS:
                yield field.name, value, False
        elif isinstance(value, Path):
            yield field.name, value.name, False
        elif hasattr(value, "shape"):
            yield field.name, "x".join(map(str, value.shape)), True
        elif isinstance(value, (Mapping, list, tuple)):
            yield field.name, str(len(value)), True


def short_repr(record: object, *facts: str, **fields: Any) -> str:
    """Return ``<Name facts, field=value, ...>``, shortened to :data:`MAX_LENGTH` characters.

    Fields that are None are left out; numbers are written with thousands separators.

    Examples
    --------
    >>> short_repr(5, "4,177 records", k=5, method=None)
    '<int 4,177 records, k=5>'
    """
    named = (f"{name}={_plain(value)}" for name, value in fields.items() if value is not None)
    text = ", ".join((*facts, *named))
    name = type(record).__name__
    text = _shorten(text, MAX_LENGTH - len(name) - 3)
    return f"<{name} {text}>" if text else f"<{name}>"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: "1 record", "2,000 records".

    Examples
    --------
    >>> count(1, "class", "classes"), count(2000, "record")
    ('1 class', '2,000 records')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def number_range(low: int, high: int) -> str:
    """Return a range of counts, or a single count if both ends are equal.

    Examples
    --------
    >>> number_range(5, 1200), number_range(5, 5)
    ('5 to 1,200', '5')
    """
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def percent(share: float) -> str:
    """Return a share in percent, with four significant digits.

    Examples
    --------
    >>> percent(0.046912), percent(1)
    ('4.691 %', '100 %')
    """
    return f"{100 * share:.4g} %"


def format_number(value: float) -> str:
    """Return a number with up to four decimals, or three digits if it is very large or small.

    Examples
    --------
    >>> format_number(0.25), format_number(1 / 3), format_number(0.0), format_number(1.5e-7)
    ('0.25', '0.3333', '0', '1.5e-07')
    """
    if value and not 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}"
    return f"{value:.4f}".rstrip("0").rstrip(".")


_COUNTED_UNITS = ("records", "classes", "columns", "values", "statements")
_PERCENT_UNITS = ("share", "probability")


def format_quantity(value: float, unit: str) -> str:
    """Format a number with its unit for people: shares in percent, counts unchanged.

    Examples
    --------
    >>> format_quantity(2000, "records"), format_quantity(0.05, "share")
    ('2,000', '5 %')
    """
    if unit in _PERCENT_UNITS:
        return percent(value)
    if unit in _COUNTED_UNITS and float(value).is_integer():
        return f"{value:,.12g}"
    return format_number(value)


def listing(items: Iterable[str], *, most: int = 12) -> str:
    """Return the items as a phrase, at most ``most`` of them.

    Examples
    --------
    >>> listing(["'age'", "'sex'"]), listing(["1", "2", "3"], most=2)
    ("'age', 'sex'", '1, 2 and 1 more')
    """
    texts = list(items)
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def html_card(
    title: str,
    rows: Mapping[str, str],
    *,
    notes: Iterable[str] = (),
    next_steps: Mapping[str, str] | None = None,
) -> str:
    """Return an HTML card for notebooks.

    Parameters
    ----------
    title
        The main statement, such as the guarantee.
    rows
        Facts by label; at most :data:`MAX_ROWS` are shown.
    notes
        Findings or warnings; at most five are shown.
    next_steps
        Calls to try next, each with what it does.

    Examples
    --------
    >>> "<th" in html_card("5-anonymous", {"Records": "100"})
    True
    """
    listed_rows = list(rows.items())
    if len(listed_rows) > MAX_ROWS:
        listed_rows[MAX_ROWS:] = [("...", f"and {len(rows) - MAX_ROWS:,} more")]
    facts = "".join(
        f'<tr><th style="text-align:left">{escape(label)}</th>'
        f'<td style="text-align:left">{escape(_shorten(text))}</td></tr>'
        for label, text in listed_rows
    )
    shown = list(notes)
    listed = "".join(f"<li>{escape(_shorten(note))}</li>" for note in shown[:5])
    if len(shown) > 5:
        listed += f"<li>and {len(shown) - 5:,} more</li>"
    steps = "".join(
        f"<li><code>{escape(call)}</code>: {escape(purpose)}</li>"
        for call, purpose in (next_steps or {}).items()
    )
    return (
        f'<div><p style="margin:0"><strong>{escape(title)}</strong></p><table>{facts}</table>'
        + (f"<ul>{listed}</ul>" if listed else "")
        + (f'<p style="margin:0">Next:</p><ul>{steps}</ul>' if steps else "")
        + "</div>"
    )


def _shorten(text: str, most: int = MAX_LENGTH) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _plain(value: Any) -> str:
    if type(value).__name__ in _BOOLEANS or not isinstance(value, Real):
        return str(value)
    return f"{value:,}" if isinstance(value, Integral) else f"{float(value):.4g}"


def make_frame(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Build a data frame from columns.

    Examples
    --------
    >>> make_frame({"name": ["k"], "value": [5]}).shape
    (1, 2)
    """
    try:
        import pandas as pd  # noqa: PLC0415
    except ImportError:
        import polars as pl  # noqa: PLC0415

        return pl.DataFrame(dict(columns), strict=False)
    return pd.DataFrame(dict(columns))


def frame_of_rows(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Build a data frame from mappings with the same keys.

    Examples
    --------
    >>> frame_of_rows([{"k": 5, "loss": 0.1}, {"k": 10, "loss": 0.2}]).shape
    (2, 2)
    """
    return make_frame({name: [row[name] for row in rows] for name in (rows[0] if rows else ())})
