"""What is asked of the engine, checked before any work."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from microcell import groundwork, partitioning
from microcell.engines._folders import check_output, temporary_output
from microcell.errors import OptionError
from microcell.model import Schema

__all__ = ["ENGINES", "MACROCELL", "SEAMS", "Request", "check_engine", "check_workers", "make_request"]

MACROCELL, LEAST_MACROCELL = 200_000, 100
SEAMS = 2

ENGINES = ("dask",)

_REFUSED = {
    "cells": "cells as a function",
    "blocks": "blocks of columns",
    "require": "requirements",
}


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    schema: Schema
    k: int
    output: Path
    method: str = "auto"
    options: Mapping[str, Any] | None = None
    seed: int = 0
    missing: str = "error"
    dependence: float = 0.0
    reading: Mapping[str, Any] | None = None
    macrocell: int = MACROCELL
    seams: int = SEAMS
    scratch: Path | None = None
    replace: bool = False


def make_request(
    schema: Any, output: str | Path | None, scratch: str | Path | None, options: Mapping[str, Any], **given: Any
) -> Request:
    """The request, refused if it asks for what is unknown, out of range or not there on an engine.

    Without an output, the release goes to a folder that lasts as long as the program.
    """
    for name in _REFUSED.keys() & options.keys():
        raise OptionError(f"{name}: {_REFUSED[name]} cannot be had for a data set on an engine yet. Leave it out.")
    own = {"effort": "fast", **options} if given["method"] == "auto" else dict(options)
    partitioning.check_k(given["k"])
    partitioning.check_method(given["method"], own)
    groundwork.check_handling(given["missing"], given["seed"])
    partitioning.check_dependence(given.get("dependence", 0.0))
    if not isinstance(own.get("effort", "fast"), str) or "seconds" in own:
        raise OptionError("A limit of seconds makes results differ from run to run. Give an effort in a word.")
    for name, least in (("macrocell", LEAST_MACROCELL), ("seams", 0)):
        if not _is_whole(given[name]) or given[name] < least:
            raise OptionError(f"{name} must be a whole number of {least:,} or more, not {given[name]!r}.")
    folder = None if scratch is None else Path(scratch)
    if folder is not None and not folder.is_dir():
        raise OptionError(f"The scratch folder {folder} does not exist. Make it first.")
    known = groundwork.as_schema(schema)
    if output is not None:
        check_output(Path(output), given["replace"])
    given["macrocell"] = max(int(given["macrocell"]), 4 * int(given["k"]))
    target = temporary_output(folder) if output is None else Path(output)
    return Request(known, output=target, options=own, scratch=folder, **given)


def check_engine(engine: Any) -> None:
    """Refuse the name of an engine that is not known; None is the one that there is."""
    if engine is not None and engine not in ENGINES:
        raise OptionError(f"engine must be {' or '.join(map(repr, ENGINES))}, not {engine!r}.")


def check_workers(scheduler: Any, workers: Any, memory: Any) -> None:
    """Refuse an address or a number of workers that is none, and workers for a scheduler, which has its own."""
    if scheduler is not None and not isinstance(scheduler, str):
        raise OptionError(f"scheduler must be the address of one, not {type(scheduler).__name__}.")
    if workers is not None and (not _is_whole(workers) or workers < 1):
        raise OptionError(f"workers must be 1 or more, not {workers!r}.")
    for name, value in (("workers", workers), ("memory", memory)):
        if scheduler is not None and value is not None:
            raise OptionError(
                f"{name} is for workers that are started on this machine; those of a scheduler have their own. Give "
                "one of the two."
            )


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
