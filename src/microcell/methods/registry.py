"""The registry of methods: a name, a function and the facts that help users choose.

A method is a function ``(X, k, *, weights, seed, **options) -> labels`` decorated with
``@partitioner(...)``; nothing else needs to know about it. Its options are its further keyword-only
parameters. A method that makes cells of k distinct persons by itself also takes ``persons``; the
cells of other methods are merged and refined until they have k persons.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from microcell._display import record_html, record_repr
from microcell.errors import OptionError
from microcell.model import Integers

__all__ = ["METHODS", "REQUESTED", "Method", "partitioner", "select"]

REQUESTED = "requested"
"""The reason for a method that the user named."""

_SETTINGS = ("method", "seed", "missing", "require", "dependence", "blocks", "cells")
"""Keywords of ``anonymize`` that are not options of a method, to suggest for misspelt ones."""

_COMMON = ("weights", "seed", "persons")
"""Keyword-only parameters of a method that are not its options."""

Partitioner = Callable[..., Integers]


@dataclass(frozen=True)
class Method:
    """A registered method and the facts that help users choose."""

    name: str
    function: Partitioner
    summary: str
    sizes: str
    cost: str
    source: str
    dimensions: str = "any"
    randomized: bool = False
    """Whether the random seed matters."""

    __repr__ = record_repr
    _repr_html_ = record_html

    @property
    def options(self) -> Mapping[str, Any]:
        """The method's own options and their defaults."""
        parameters = inspect.signature(self.function).parameters.values()
        return {
            item.name: item.default
            for item in parameters
            if item.kind is inspect.Parameter.KEYWORD_ONLY and item.name not in _COMMON
        }

    @property
    def counts_persons(self) -> bool:
        """Whether the method makes cells of k distinct persons by itself."""
        return "persons" in inspect.signature(self.function).parameters

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise OptionError for an option that the method does not accept."""
        for name in options:
            if name not in self.options:
                near = get_close_matches(name, (*self.options, *_SETTINGS), n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise OptionError(
                    f"Method {self.name!r} has no option {name!r}.{hint} "
                    f"Its options: {', '.join(self.options) or 'none'}.",
                    code="option.unsupported",
                    option=name,
                    method=self.name,
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
    randomized: bool = False,
) -> Callable[[Partitioner], Partitioner]:
    """Register the decorated function as a method."""

    def register(function: Partitioner) -> Partitioner:
        registered = METHODS.get(name)
        # pytest may run a module twice, once on its own and once with its package.
        if registered is not None and registered.function.__module__ != function.__module__:
            raise ValueError(f"Method {name!r} is registered twice.")
        METHODS[name] = Method(name, function, summary, sizes, cost, source, dimensions, randomized)
        return function

    return register


def select(name: str) -> Method:
    """Return the method with this name."""
    if name not in METHODS:
        raise OptionError(
            f"Unknown method {name!r}. Choose one of auto, {', '.join(METHODS)}.",
            code="option.unknown",
            option="method",
        )
    return METHODS[name]
