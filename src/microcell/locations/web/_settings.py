"""What whoever runs the service decides about its face to the web."""

from dataclasses import dataclass, field
from math import isfinite

from microcell.errors import OptionError

__all__ = ["LEAST_TOKEN", "Settings"]

LEAST_TOKEN = 16
"""Characters of the operator's token."""


@dataclass(frozen=True)
class Settings:
    """The operator's token, and how much a client may ask for.

    Parameters
    ----------
    operator
        The token for rebuilding, the status, what-if and metrics.
    open_metrics
        True to show metrics without the token, where an internal network alone reaches the service.
    rate, burst
        Requests a second from one address in the long run, and at once; a rate of 0 is no limit.
    sign_up_rate, sign_up_burst
        The same for sign-ups, which cost most and would let one client fill a cell with devices of its own.
    log_requests
        True to log a line a request: method, route, status and time; no address, pseudonym, query or content.

    Examples
    --------
    >>> Settings(operator="correct horse battery staple").rate
    20.0
    """

    operator: str = field(repr=False)
    open_metrics: bool = False
    rate: float = 20.0
    burst: int = 100
    sign_up_rate: float = 0.2
    sign_up_burst: int = 20
    log_requests: bool = True

    def __post_init__(self) -> None:
        if len(self.operator) < LEAST_TOKEN or not self.operator.isascii() or not self.operator.isprintable():
            raise OptionError(
                f"The operator's token must have {LEAST_TOKEN} or more characters of plain ASCII, hard to guess."
            )
        if not all(isfinite(rate) and rate >= 0 for rate in (self.rate, self.sign_up_rate)):
            raise OptionError("A rate must be a number of requests a second, or 0 for no limit.")
        if any(letter.isspace() for letter in (self.operator[0], self.operator[-1])):
            raise OptionError("The operator's token must not begin or end with a blank.")
