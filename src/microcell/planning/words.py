"""Times and shares in words."""

__all__ = ["tell_share", "tell_time"]

_UNITS = ((86_400, "d", 3600), (3600, "h", 60), (60, "min", 1))
"""Seconds of a unit, its name, and those of the next smaller one."""


def tell_time(seconds: float) -> str:
    """The time in the two largest units that it has.

    Examples
    --------
    >>> tell_time(153.2), tell_time(5820), tell_time(3600), tell_time(0.25)
    ('2 min 33 s', '1 h 37 min', '1 h', '0.2 s')
    """
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    for size, name, smaller in _UNITS:
        parts = round(seconds / smaller)  # rounded first: 59.9 minutes are an hour
        if parts * smaller >= size:
            whole, rest = divmod(parts, size // smaller)
            below = {3600: "h", 60: "min", 1: "s"}[smaller]
            return f"{whole} {name} {rest} {below}" if rest else f"{whole} {name}"
    return f"{round(seconds)} s"


def tell_share(share: float) -> str:
    """The share in percent, with one digit after the point.

    Examples
    --------
    >>> tell_share(0.1464)
    '14.6 %'
    """
    return f"{100 * share:.1f} %"
