"""Tables to attack, and releases of them with everything that is published."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import microcell as mc

__all__ = ["METHODS", "TABLES", "Setting", "make_people", "publish", "release_people"]

Columns = dict[str, NDArray[Any]]

METHODS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "auto, fast": ("auto", {"effort": "fast"}),
    "mdav": ("mdav", {}),
    "pcl": ("pcl", {}),
    "vmdav": ("vmdav", {}),
}
"""Methods by the name in the results, with their options."""


def _survey(n: int, seed: int) -> Columns:
    people = mc.sample_survey(n, seed=seed + 100)
    people["name"] = np.array([f"{name} {i:04d}" for i, name in enumerate(people["name"])])
    return people


def _heavy_tailed(n: int, seed: int) -> Columns:
    rng = np.random.default_rng([seed, 1])
    income = np.exp(rng.normal(10.4, 0.9, n)).round().astype(np.int64)
    income[rng.integers(n)] = rng.integers(5_000_000, 10_000_000)
    return {
        "income": income,
        "wealth": np.exp(rng.normal(11.0, 1.8, n)).round(2),
        "age": rng.integers(18, 95, n),
        "ill": rng.choice(["asthma", "diabetes", "none"], n, p=[0.2, 0.1, 0.7]),
    }


def _weighted(n: int, seed: int) -> Columns:
    rng = np.random.default_rng([seed, 2])
    return {
        "income": np.exp(rng.normal(10.4, 0.5, n)).round().astype(np.int64),
        "height": rng.normal(170, 10, n).round(1),
        "sampling_weight": np.exp(rng.normal(3, 2.5, n)).round(3),
        "ill": rng.choice(["asthma", "diabetes", "none"], n, p=[0.2, 0.1, 0.7]),
    }


_MAKERS = {"survey": _survey, "heavy-tailed": _heavy_tailed, "weighted": _weighted}

TABLES = tuple(_MAKERS)


def make_people(table: str, n: int, seed: int) -> Columns:
    """Return a table; ``secret`` is a confidential number that each person has to themselves."""
    people = _MAKERS[table](n, seed)
    secrets = np.random.default_rng([seed, 3]).permutation(10 * n)[:n] + 100_000
    return {**people, "secret": secrets}


def schema_of(table: str) -> mc.Schema:
    """Return the schema of a table."""
    if table == "survey":
        sample = mc.sample_schema()
        confidential = [*(column.name for column in sample.confidential), "secret"]
        return mc.Schema(identifiers=["name"], quasi=sample.quasi, confidential=confidential)
    if table == "heavy-tailed":
        return mc.Schema(quasi=["income", "wealth", "age"], confidential=["ill", "secret"])
    return mc.Schema(
        quasi=["income", "height"], confidential=["ill", "secret"], weight="sampling_weight"
    )


@dataclass(frozen=True, eq=False)
class Setting:
    """A release under attack.

    ``published`` is the file as an outsider reads it. ``classes`` is the equivalence class of each
    person, and ``record_classes`` that of each published record: the attacker is assumed to know
    which class every person belongs to.
    """

    table: str
    method: str
    k: int
    seed: int
    people: Columns
    release: Any
    published: Columns
    files: Mapping[str, Path] = field(default_factory=dict)
    classes: NDArray[np.int64] = field(init=False)
    record_classes: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        keys = [part for column in self.release.schema.quasi for part in column.parts]
        codes: dict[tuple[Any, ...], int] = {}

        def encode(columns: Any) -> NDArray[np.int64]:
            rows = zip(*(np.asarray(columns[key]).tolist() for key in keys), strict=True)
            return np.array([codes.setdefault(row, len(codes)) for row in rows])

        object.__setattr__(self, "classes", encode(self.release.table))
        object.__setattr__(self, "record_classes", encode(self.published))

    def targets(self) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield one person per class, the members of the class and its published records.

        One per class, so that the guesses are independent.
        """
        rng = np.random.default_rng([self.seed, 4])
        for label in np.unique(self.classes):
            members = np.flatnonzero(self.classes == label)
            yield int(rng.choice(members)), members, np.flatnonzero(self.record_classes == label)


def release_people(people: Columns, schema: mc.Schema, method: str, k: int, **options: Any) -> Any:
    """Anonymize with one of ``METHODS``."""
    name, method_options = METHODS[method]
    return mc.anonymize(people, schema, k=k, method=name, **method_options, **options)


def publish(
    table: str,
    method: str,
    k: int,
    n: int,
    seed: int,
    folder: Path,
    *,
    documents: bool = False,
    keep_order: bool = False,
) -> Setting:
    """Publish a release into the folder, with all public documents if requested."""
    people = make_people(table, n, seed)
    release = release_people(people, schema_of(table), method, k, cells=documents)
    files = {"table": folder / "release.parquet"}
    if documents:
        files |= {
            "report": folder / "report.html",
            "certificate": folder / "certificate.pdf",
            "cells": folder / "cells.json",
        }
    others = {name: path for name, path in files.items() if name != "table"}
    release.publish(files["table"], audience="public", keep_order=keep_order, **others)
    return Setting(table, method, k, seed, people, release, read_columns(files["table"]), files)


def read_columns(path: Path) -> Columns:
    """Read a Parquet file with another reader than ours."""
    frame = pl.read_parquet(path)
    return {name: frame[name].to_numpy() for name in frame.columns}
