"""The design of a survey: cells of candidates, published before anyone answers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from numbers import Integral, Real
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from microcell import __version__, encoding, methods, progress, tables
from microcell.cells import Cells
from microcell.errors import DataError, GuaranteeError, OptionError, SchemaError, TooFewRecordsError
from microcell.kernels.arrays import squared_distances
from microcell.methods.boxes import make_boxes
from microcell.methods.candidates import expected_distortion, size_for_participation
from microcell.model import Encoding, Floats, Integers, Schema, Table
from microcell.release import aggregate, prepare
from microcell.release import manifest as manifests
from microcell.surveys.cells import Figures, as_roster, find_figures
from microcell.surveys.make_cells import Task, make_cells

__all__ = ["Participation", "SurveyDesign", "check_numbers", "design_survey", "reduce_schema"]

_LEAST = 1e-300


def check_numbers(k: object, failure: object) -> None:
    """Refuse a k below 2, and a failure that is no probability."""
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 2:
        raise OptionError("k must be a whole number of 2 or more.")
    if (
        isinstance(failure, bool)
        or not isinstance(failure, Real)
        or not _LEAST <= float(failure) < 1
    ):
        raise OptionError("failure must be a probability of 1e-300 or more, and under 1.")


def reduce_schema(schema: Schema, participation: object) -> Schema:
    """The schema with its quasi-identifiers alone: all that a design looks at; other columns are left out."""
    if schema.strata:
        raise SchemaError(
            "A survey is designed without strata. Design one for each stratum, or leave strata out."
        )
    if schema.weight is not None:
        raise SchemaError(
            "A design weighs candidates by participation: leave the weight column out of the schema."
        )
    if isinstance(participation, str) and participation in {
        part for item in schema.quasi for part in item.parts
    }:
        raise OptionError(
            f"The participation column {participation!r} is a quasi-identifier. Name another column."
        )
    taken = {"cell", "design"} & {part for item in schema.quasi for part in item.parts}
    if taken:
        raise OptionError(
            f"A quasi-identifier is named {min(taken)!r}, as a column that answers have. Rename it in frame and schema."
        )
    return replace(schema, identifiers=(), confidential=(), keep=(), drop=(), rest="drop")


@dataclass(frozen=True, eq=False)
class Participation:
    """The probability of each candidate to take part."""

    each: Floats
    common: float | None
    """The probability of all, where they have the same."""
    column: str | None
    """The column that it came from."""

    @classmethod
    def read(cls, given: object, original: Table, table: Table) -> "Participation":
        """From a number, or from a column; the table has the records of the original that are designed for."""
        if isinstance(given, str):
            _check_column(given, original)
            each = table.columns[given].reals()
            common = float(each[0]) if (each == each[0]).all() else None
            return cls(each, common, given)
        if (
            isinstance(given, bool)
            or not isinstance(given, Real)
            or not _LEAST <= float(given) <= 1
        ):
            raise OptionError(
                "participation must be a probability over 0 and up to 1, or the name of a column of the frame."
            )
        return cls(np.full(table.rows, float(given)), float(given), None)


def _check_column(name: str, table: Table) -> None:
    if name not in table.columns:
        raise SchemaError(
            f"The frame has no column {name!r} to take participation from. Check its name."
        )
    values = table.columns[name]
    if not values.is_number:
        raise DataError(
            f"Participation column {name!r} holds {values.storage} values, not probabilities."
        )
    reals = values.reals()
    wrong = np.flatnonzero(~((reals >= _LEAST) & (reals <= 1)))
    if len(wrong):
        raise DataError(
            f"Participation column {name!r} must be over 0 and up to 1 in every row; {len(wrong)} rows are not, the "
            f"first is row {wrong[0] + 1}. Leave out candidates who cannot take part."
        )


_COMPARED = 10_000
"""What participation costs is found on at most so many candidates, who lie together."""

_DOMINANT = 0.9
"""A candidate with more than this share of a cell's expected participants would be seen in its weighted mean."""

TRUST = {"local": ("power", "balls", "lookup"), "none": ("boxes",)}
"""The kinds of cells for each trust; the first is the default."""


@dataclass(frozen=True, eq=False)
class SurveyDesign:
    """Cells of a survey, whose file respondents get, and the account of their making, which holds no value."""

    cells: Cells
    manifest: Mapping[str, Any]
    labels: Integers
    """The cell of each candidate, as the function assigns them; of the records that were designed for, in order."""
    figures: Figures
    source: Path | None = None


def design_survey(
    frame: Any,
    schema: Schema | str | Path,
    k: int,
    participation: float | str = 0.75,
    failure: float = 1e-5,
    *,
    trust: str = "local",
    method: str = "auto",
    cells: str | None = None,
    boxes: int | None = None,
    seed: int = 0,
    missing: str = "error",
    **options: Any,
) -> SurveyDesign:
    """Cells of candidates in which k or more take part, or nobody, but for an accepted probability.

    Parameters
    ----------
    frame
        The candidates with their quasi-identifiers: a table, as :func:`anonymize` takes it.
    schema
        The role of each column, or the path of its file. Of it only the quasi-identifiers count here; the frame need
        not have the others, which are asked for later.
    k
        The number of participants among whom each is to be hidden, 2 or more.
    participation
        The probability that a candidate takes part, over 0 and up to 1: a number for all, or the name of a column of
        the frame that has one for each. Candidates decide independently of each other.
    failure
        The accepted probability that a cell has some, but fewer than k, participants.
    trust
        "local": each respondent's own device finds the cell, from a file. "none": respondents find it by hand on a
        printed form, for which cells are boxes.
    method, options
        How cells are made where participation is the same for all, as in :func:`anonymize`. Where it differs there is
        one way: cells grow until they hold, and local search refines them.
    cells
        Of local trust: "power" (the default), "balls", or "lookup", which holds the candidates' records and is for
        candidates that are public.
    boxes
        Of no trust: the most boxes that the form may have.
    missing
        What to do with candidates that lack a quasi-identifier: "error", "drop" or "impute", as in :func:`anonymize`.

    Returns
    -------
    SurveyDesign
        Every cell was checked as the published function assigns the candidates; :class:`GuaranteeError` otherwise.

    Examples
    --------
    >>> from microcell import Schema
    >>> people = {"age": np.arange(600) % 71 + 18}
    >>> design = design_survey(people, Schema(quasi=["age"]), 5, participation=0.5, failure=1e-3)
    >>> bool((design.figures.failures <= 1e-3).all())
    True
    """
    started = perf_counter()
    check_numbers(k, failure)
    kind = _as_kind(trust, cells, boxes)
    prepare.check_handling(missing, seed)
    own = reduce_schema(prepare.as_schema(schema), participation)
    prepared = prepare.prepare(frame, own, k=k, missing=missing)
    chances = Participation.read(participation, prepared.original, prepared.table)
    size = _least_size(k, chances, failure, method, options)
    if size is not None and size > prepared.table.rows:
        raise TooFewRecordsError(
            f"A cell needs {size} candidates for k = {k} within the failure limit, more than the {prepared.table.rows} "
            "there are. Accept more failures, lower k, or add candidates."
        )
    published = prepared.encoded.encoding.published(k if kind == "boxes" or size is None else size)
    # Respondents have the published encoding, which lacks rare names: candidates must be placed as they will be.
    points = encoding.place(prepared.table, published).matrix
    if points.shape[1] == 0:
        raise OptionError(
            "No quasi-identifier varies, so that there is nothing that cells could be a function of."
        )
    task = Task(points, chances.each, k, failure, size, method, options, seed, boxes)
    made = _make(task, kind, published)
    labels = made.assign(points)
    figures = _prove(made, labels, chances.each, k, failure)
    told = _with_survey(
        made, prepared, labels, chances.each, figures, {"k": k, "failure": failure, "trust": trust}
    )
    request = {
        "method": method,
        "options": dict(options),
        "kind": kind,
        "seed": int(seed),
        "missing": missing,
    }
    manifest = _describe(
        told, prepared, task, labels, figures, {**request, "column": chances.column}
    )
    return SurveyDesign(
        told,
        {**manifest, "seconds": round(perf_counter() - started, 3)},
        labels,
        figures,
        prepared.original.origin.path,
    )


# ---------------------------------------------------------------------------------------------- what was asked for


def _as_kind(trust: str, cells: str | None, boxes: int | None) -> str:
    if trust not in TRUST:
        raise OptionError(f"trust must be one of {', '.join(TRUST)}.")
    kind = TRUST[trust][0] if cells is None else cells
    if kind not in TRUST[trust]:
        raise OptionError(f"With trust {trust!r}, cells must be one of {', '.join(TRUST[trust])}.")
    if boxes is not None and trust != "none":
        raise OptionError("boxes limits a printed form: it is for trust='none'.")
    return str(kind)


def _least_size(
    k: int, chances: Participation, failure: float, method: str, options: Mapping[str, Any]
) -> int | None:
    """The size of cells where all have the same probability; None where they do not, and no method is to be chosen."""
    if chances.common is not None:
        methods.check_method(method, options)
        return size_for_participation(k, chances.common, failure)
    if method != "auto" or options:
        raise OptionError(
            "With uneven participation there is one way to make cells: leave method as it is."
        )
    return None


# ---------------------------------------------------------------------------------------------- steps of a design


def _prove(cells: Cells, labels: Integers, chances: Floats, k: int, failure: float) -> Figures:
    """The figures of the cells as the function has them, if every cell holds."""
    progress.report("checking")
    if (
        not np.array_equal(np.bincount(labels, minlength=len(cells)), cells.sizes)
        or cells.sizes.min() < k
    ):
        raise GuaranteeError(
            "Cells have other sizes than they state, so there is no design. Please report this."
        )
    figures = find_figures(as_roster(labels, chances), k)
    missed = int((figures.failures > failure).sum())
    if missed:
        raise GuaranteeError(
            f"{missed} cells would miss the failure limit, so there is no design. Please report this."
        )
    most, sums = np.zeros(len(cells)), np.bincount(labels, weights=chances)
    np.maximum.at(most, labels, chances)
    alone = int((most > _DOMINANT * sums).sum())
    if alone:
        raise GuaranteeError(
            f"In {alone} cells one candidate is so much likelier to take part than all others together that the mean "
            "would be that candidate's record. Leave out those who hardly take part, or accept fewer failures."
        )
    return figures


def _with_survey(
    cells: Cells,
    prepared: prepare.Prepared,
    labels: Integers,
    chances: Floats,
    figures: Figures,
    facts: Mapping[str, Any],
) -> Cells:
    """The cells with what each publishes, weighed by participation, and the survey part of their file."""
    table, schema = prepared.table, prepared.schema
    representatives = aggregate.represent(table, schema, labels, chances)
    dropped = [name for name in table.names if name not in schema.keys]
    published = tables.publish(table, labels, representatives, dropped)
    survey = {
        **facts,
        "failure": float(facts["failure"]),
        "participation": as_roster(labels, chances).as_part(),
        "cell_failures": np.minimum(figures.failures, 1.0).tolist(),
        **figures.as_dict(),
    }
    told = tables.values_of_cells(published, labels, list(published.names))
    return replace(cells, representatives=told, survey=survey)


def _describe(
    cells: Cells,
    prepared: prepare.Prepared,
    task: Task,
    labels: Integers,
    figures: Figures,
    request: Mapping[str, Any],
) -> dict[str, Any]:
    """The manifest: how the design was made and what it attains; no value of the frame."""
    sizes, failures = cells.sizes, figures.failures
    spread = np.quantile(failures, [0.0, 0.25, 0.5, 0.75, 1.0])
    taking_part = np.bincount(labels, weights=task.chances)
    distortion = expected_distortion(task.points, labels, task.chances)
    return {
        "manifest_version": 1,
        "microcell": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "k": task.k,
        "failure": float(task.failure),
        "participation": {
            "column": request["column"],
            "common": float(task.chances[0]) if task.size is not None else None,
            "mean": float(task.chances.mean()),
        },
        **{name: value for name, value in request.items() if name != "column"},
        "trust": "none" if cells.kind == "boxes" else "local",
        "columns": [item.name for item in prepared.schema.quasi],
        "frame": manifests.describe_table(prepared.original),
        "candidates": {"in": prepared.original.rows, "designed": prepared.table.rows},
        "cells": {
            "count": len(cells),
            "smallest": int(sizes.min()),
            "largest": int(sizes.max()),
            "least_size": task.least,
            "expected_participants": {
                "least": float(taking_part.min()),
                "mean": float(taking_part.mean()),
            },
            "failure": dict(
                zip(("least", "lower", "median", "upper", "largest"), spread.tolist(), strict=True)
            ),
        },
        "table": figures.as_dict(),
        "distortion": distortion,
        "certainty": _compare_with_certainty(task, cells, distortion),
        "cells_sha256": cells.digest,
    }


def _compare_with_certainty(task: Task, cells: Cells, distortion: float) -> dict[str, Any]:
    """The distortion if all were sure to take part, at the same k, and what participation costs against it.

    Of many candidates, the ratio is that of those nearest to one drawn at random, for whom a design is made in either
    case; they lie as close to each other as all do, which a sample would not. The distortion follows from it.
    """
    progress.report("comparing with certainty")
    kind, encoding = cells.kind, cells.encoding
    assert encoding is not None
    own, n = distortion, len(task.points)
    if n > _COMPARED:
        centre = int(np.random.default_rng(task.seed).integers(n))
        distances = squared_distances(task.points, task.points[centre])
        task = task.part(np.sort(np.argsort(distances, kind="stable")[:_COMPARED]))
    certain = replace(
        task, chances=np.ones(len(task.points)), size=None if task.size is None else task.k
    )
    try:
        own = _distortion_of(task, kind, encoding) if len(task.points) < n else own
        sure = _distortion_of(certain, kind, encoding)
    except (
        GuaranteeError
    ):  # those who lie together are too few for a cell: the design holds, but is not compared
        return {"distortion": None, "ratio": None, "candidates": 0}
    ratio = own / sure if sure > 0 else None
    return {
        "distortion": sure if len(task.points) == n or ratio is None else distortion / ratio,
        "ratio": ratio,
        "candidates": len(task.points),
    }


def _distortion_of(task: Task, kind: str, encoding: Encoding) -> float:
    return expected_distortion(
        task.points, _make(task, kind, encoding).assign(task.points), task.chances
    )


def _make(task: Task, kind: str, encoding: Encoding) -> Cells:
    """The cells of the task, with the encoding that respondents get."""
    if kind == "boxes":
        most, seed = task.boxes, task.seed
        return make_boxes(
            task.points, encoding, task.k, task.chances, task.failure, most=most, seed=seed
        )
    return replace(make_cells(task, kind), k=task.least, encoding=encoding)
