"""What all tasks of a release need to know, kept in a file of the job's own folder that every worker reads once."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from microcell.engines._designs import Design
from microcell.engines._surveying import Key
from microcell.engines._trees import Routing
from microcell.model import Schema

__all__ = ["Job", "Macrocell", "Run", "load_job", "save_job"]


@dataclass(frozen=True, eq=False)
class Job:
    """How a data set is made k-anonymous.

    ``columns`` is the Arrow schema of what is read: columns that are not published are not. ``dependence`` is the
    weight of confidential columns that was asked for. The ``design`` makes records points; ``strata`` are numbered;
    ``routings`` lead to the macrocells of the first round and of each further one; ``label`` is the name of the column
    in which cells travel between rounds. ``work`` is the folder for what is under way, ``target`` that of the release
    to be.
    """

    schema: Schema
    columns: Any
    k: int
    seed: int
    missing: str
    dependence: float
    method: str
    options: Mapping[str, Any]
    work: Path
    target: Path
    suffix: str
    label: str
    design: Design = Design()  # noqa: RUF009
    strata: Mapping[Key, int] | None = None
    routings: tuple[Routing, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """Rows on their way: a batch of a file."""

    path: Path
    number: int


@dataclass(frozen=True)
class Macrocell:
    """The rows that one task divides into cells, by the runs that they come in."""

    number: int
    round: int
    runs: tuple[Run, ...]


def save_job(job: Job, name: str) -> Path:
    """The file that the job was written to, under a name that was not used before."""
    path = job.work / f"{name}.job"
    path.write_bytes(pickle.dumps(job))
    return path


@lru_cache(maxsize=2)
def load_job(path: Path) -> Job:
    """The job that :func:`save_job` wrote."""
    job: Job = pickle.loads(path.read_bytes())
    return job
