"""How much work constrained Lloyd is: cells that are made at once, and rounds of shaking."""

__all__ = ["MOST_AT_ONCE", "WITHIN", "usual_shakes"]

MOST_AT_ONCE, WITHIN = 2000, 500
"""More cells than this are made within macrocells, each of about so many cells, unless told otherwise."""

_SHAKING, _MOST_SHAKES = 1e9, 800
"""Points times cells times dimensions that rounds of shaking go through, if nothing is said of them."""


def usual_shakes(values: int, cells: int, *, share: float = 1.0) -> int:
    """Rounds of shaking for points of so many values in all, or for a part of them that has its share."""
    return int(min(_MOST_SHAKES, share * _SHAKING / (values * cells + 1)))
