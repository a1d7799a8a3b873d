"""How often a client may ask: a bucket of permissions for each address, refilled at a steady rate."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from math import isfinite
from time import monotonic

from microcell.errors import OptionError

__all__ = ["Limit", "client_of"]

MOST_CLIENTS = 100_000
"""So many buckets are kept; beyond, that of whoever asked least recently is forgotten."""


@dataclass
class Limit:
    """At most ``rate`` requests a second from each client in the long run, and ``burst`` at once; 0 is no limit.

    Memory is bounded: a bucket that is forgotten counts as full. Not for several threads at once.

    Examples
    --------
    >>> now = 0.0
    >>> limit = Limit(rate=2.0, burst=3, clock=lambda: now)
    >>> [limit.wait("a") for _ in range(4)]
    [0.0, 0.0, 0.0, 0.5]
    >>> limit.wait("b")
    0.0
    >>> now = 0.5
    >>> limit.wait("a")
    0.0
    """

    rate: float
    burst: int = 1
    clock: Callable[[], float] = monotonic
    most: int = MOST_CLIENTS
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not (isfinite(self.rate) and self.rate >= 0):
            raise OptionError("A rate must be a number of requests a second, or 0 for no limit.")
        if self.burst < 1:
            raise OptionError("A burst must be 1 request or more.")

    def __len__(self) -> int:
        return len(self._buckets)

    def wait(self, client: str) -> float:
        """0 if the client may ask now, which is counted; else the seconds after which it may."""
        if self.rate == 0.0:
            return 0.0
        now = self.clock()
        left, before = self._buckets.pop(client, (float(self.burst), now))
        left = min(float(self.burst), left + (now - before) * self.rate)
        allowed = left >= 1.0
        self._buckets[client] = (left - 1.0 if allowed else left, now)
        if len(self._buckets) > self.most:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) / self.rate


def client_of(address: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 network of an IPv6 one, which has 2^64 addresses to use.

    Examples
    --------
    >>> client_of("192.0.2.7"), client_of("2001:db8:1:2:3:4:5:6"), client_of("::ffff:192.0.2.7")
    ('192.0.2.7', '2001:db8:1:2::/64', '192.0.2.7')
    """
    if ":" not in address:
        return address
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"
