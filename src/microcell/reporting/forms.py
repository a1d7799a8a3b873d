"""The forms a report can take."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, cast

from microcell.errors import OptionError
from microcell.model import Audit

__all__ = ["FORMS", "render"]

# Modules are named and not imported: the page draws figures, and loading matplotlib would slow every start.
FORMS: Mapping[str, str] = {
    "text": "microcell.reporting.plain",
    "json": "microcell.reporting.data",
    "html": "microcell.reporting.page",
}
"""The module behind each form; each has a function ``compose(audit, manifest, title)``."""


def render(
    audit: Audit,
    form: str,
    *,
    manifest: Mapping[str, Any] | None = None,
    title: str = "Audit of a published table",
    picture: bytes | None = None,
) -> str:
    """The report of an audit as "text", "json" or "html".

    Parameters
    ----------
    manifest
        How the release was made, if known; told in the report.
    title
        The heading of text and page.
    picture
        A figure of the cells (SVG), for the page.

    Examples
    --------
    >>> import numpy as np
    >>> audit = Audit(keys=("age",), rows_original=4, rows_released=4, measures={}, class_sizes=np.array([2, 2]))
    >>> print(render(audit, "text").splitlines()[0])
    Audit of a published table
    """
    if form not in FORMS:
        raise OptionError(f"No report form {form!r}; choose one of {', '.join(FORMS)}.")
    compose = cast("Callable[..., str]", import_module(FORMS[form]).compose)
    return compose(audit, manifest, title, **({} if picture is None or form != "html" else {"picture": picture}))
