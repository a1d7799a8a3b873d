"""Cells of other packages under limits on a confidential column, found in their environment.

Each function reads a CSV file and returns the class of each record, or -1 for one that the package
suppresses. The parent process measures the classes (:mod:`benchmarks.requirements`).
"""

from typing import Any

__all__ = ["anjana_classes", "anonypyx_classes"]

_WIDTHS = (5, 10, 20, 40)
"""Widths of the intervals to which ANJANA generalizes numbers, before it hides them."""


def anonypyx_classes(
    path: str, quasi: list[str], column: str, k: int, measure: str, limit: float
) -> list[int]:
    """Return the cells of Mondrian in anonypyx, whose t-closeness is the largest difference."""
    import pandas as pd  # noqa: PLC0415
    from anonypyx import models  # noqa: PLC0415
    from anonypyx.mondrian import Mondrian  # noqa: PLC0415

    frame = pd.read_csv(path)
    for name in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            frame[name] = frame[name].astype("category")
    bound: Any = (
        models.tCloseness(float(limit), frame, column, models.max_distance_metric)
        if measure == "t_closeness"
        else models.DistinctLDiversity(int(limit), column)
    )
    classes = [-1] * len(frame)
    for number, rows in enumerate(Mondrian(frame, quasi).partition([models.kAnonymity(k), bound])):
        for row in rows:
            classes[row] = number
    return classes


def anjana_classes(
    path: str, quasi: list[str], column: str, k: int, measure: str, limit: float
) -> list[int]:
    """Return the classes of ANJANA, by full-domain generalization without suppression."""
    import pandas as pd  # noqa: PLC0415
    from anjana import anonymity  # noqa: PLC0415

    frame = pd.read_csv(path)
    frame["row"] = range(len(frame))
    levels = {name: _levels(frame[name]) for name in quasi}
    arguments = (frame.copy(), [], quasi, column, k)
    if measure == "t_closeness":
        done = anonymity.t_closeness(*arguments, float(limit), 0, levels)
    else:
        done = anonymity.l_diversity(*arguments, int(limit), 0, levels)
    classes = [-1] * len(frame)
    numbers = done.groupby(quasi, observed=True).ngroup()
    for row, number in zip(done["row"], numbers, strict=True):
        classes[int(row)] = int(number)
    return classes


def _levels(values: Any) -> dict[int, Any]:
    """Return the hierarchy of a column: wider and wider intervals, then a star."""
    import pandas as pd  # noqa: PLC0415

    out = {0: values.to_numpy()}
    if pd.api.types.is_numeric_dtype(values):
        for width in _WIDTHS:
            low = values // width * width
            out[len(out)] = [f"[{start}, {start + width})" for start in low]
    out[len(out)] = ["*"] * len(values)
    return out
