"""The registry of methods: a name, a function and its facts.

A method is a function ``(X, k, *, weights, seed, **options) -> labels`` with ``@partitioner(...)`` above it; nothing
else needs to know of it. Its options are read off its signature.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from microcell.errors import OptionError
from microcell.model import Integers

__all__ = ["METHODS", "Method", "partitioner", "select"]

Partitioner = Callable[..., Integers]


@dataclass(frozen=True)
class Method:
    """A registered method and the facts that people choose it by."""

    name: str
    function: Partitioner
    summary: str
    sizes: str
    cost: str
    source: str
    dimensions: str = "any"
    chance: bool = False
    """True if the seed matters."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The method's own options and their defaults."""
        parameters = inspect.signature(self.function).parameters.values()
        return {
            item.name: item.default
            for item in parameters
            if item.kind is inspect.Parameter.KEYWORD_ONLY and item.name not in ("weights", "seed")
        }

    def check_options(self, given: Mapping[str, Any]) -> None:
        """Refuse an option that the method does not have."""
        for name in given:
            if name not in self.options:
                known = ", ".join(self.options) or "none"
                raise OptionError(
                    f"Method {self.name!r} has no option {name!r}; its options: {known}."
                )


METHODS: dict[str, Method] = {}


def partitioner(
    name: str,
    *,
    summary: str,
    sizes: str,
    cost: str,
    source: str,
    dimensions: str = "any",
    chance: bool = False,
) -> Callable[[Partitioner], Partitioner]:
    """Register the function below under ``name``."""

    def register(function: Partitioner) -> Partitioner:
        if name in METHODS:
            raise ValueError(f"Method {name!r} is registered twice.")
        METHODS[name] = Method(name, function, summary, sizes, cost, source, dimensions, chance)
        return function

    return register


def select(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        raise OptionError(f"No method {name!r}; choose one of auto, {', '.join(METHODS)}.")
    return METHODS[name]
