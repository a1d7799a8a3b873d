"""Design of a survey: cells of candidates, published before anyone answers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from microcell import __version__, auditing, encoding, methods, progress, tables
from microcell._atomic import AtomicFiles
from microcell._display import count, html_card, short_repr
from microcell._validation import MIN_PROBABILITY, check_failure
from microcell.cells import Cells, load_cells
from microcell.errors import (
    DataError,
    GuaranteeError,
    OptionError,
    SchemaError,
    TableError,
    TooFewRecordsError,
)
from microcell.kernels.arrays import squared_distances
from microcell.measures import people
from microcell.methods.boxes import make_boxes
from microcell.methods.candidates import expected_distortion, size_for_participation
from microcell.model import Encoding, Floats, Integers, Schema, Table
from microcell.model.manifest import (
    CandidatesSection,
    CertaintySection,
    DesignCellsSection,
    DesignManifest,
    ExpectedSection,
    FailureSection,
    MethodSection,
    ParticipationSection,
    TableFailureSection,
)
from microcell.release import aggregate, prepare
from microcell.release import manifest as manifests
from microcell.release.publish import check_distinct, check_report_names
from microcell.report.design import render_design
from microcell.surveys.build import CellsTask, build_survey_cells
from microcell.surveys.participation import (
    check_k,
    check_probability,
)
from microcell.surveys.respondents import check
from microcell.surveys.survey_cells import FailureSummary, build_roster, summarize_failures

__all__ = ["Participation", "SurveyDesign", "design", "quasi_identifiers_only"]

_MAX_COMPARED = 10_000
"""Candidates used to compare with certain participation, at most. They are neighbours."""

_DOMINANT = 0.9
"""A candidate with more than this share of a cell's expected participants would dominate its
weighted mean, which would then reveal the candidate's record."""

KINDS_BY_TRUST = {"local": ("power", "balls", "lookup"), "none": ("boxes",)}
"""Kinds of cells for each level of trust; the first is the default."""


@dataclass(frozen=True, eq=False, repr=False)
class SurveyDesign:
    """Cells of a survey, to be handed to respondents, and how they were designed.

    Neither the cells (unless they are lookup cells) nor the manifest contain a record.
    """

    cells: Cells
    manifest: DesignManifest
    labels: Integers
    """Cell of each candidate, in the order of the frame, without dropped candidates."""
    failures: FailureSummary
    """Failure probabilities of the cells."""
    source: Path | None = None
    """File that the candidates were read from."""

    def __repr__(self) -> str:
        return short_repr(
            self,
            count(len(self.cells), f"{self.cells.kind} cell"),
            count(len(self.labels), "candidate"),
            k=self.manifest.k,
            worst_failure=f"{self.failures.worst:.3g}",
        )

    def _repr_html_(self) -> str:
        k = self.manifest.k
        return html_card(
            f"Either nobody or at least {k} take part in each cell, except with probability "
            f"{self.failures.worst:.3g}",
            {
                "Candidates": f"{len(self.labels):,}",
                "Cells": f"{len(self.cells):,} ({self.cells.kind})",
            },
            next_steps={
                'design.publish("cells.json")': "write the cells for the respondents",
                "mc.surveys.check(design.cells)": "what respondents can verify",
            },
        )

    @staticmethod
    def manifest_path(path: str | Path) -> Path:
        """Return the path of the manifest that :meth:`publish` writes next to the cells.

        Examples
        --------
        >>> SurveyDesign.manifest_path("cells.json").name
        'cells.design.json'
        """
        return Path(path).with_name(f"{Path(path).stem}.design.json")

    @staticmethod
    def check_outputs(
        path: str | Path,
        *,
        report: str | Path | None = None,
        sources: Iterable[Path] = (),
        overwrite: bool = True,
    ) -> None:
        """Raise :class:`TableError` if :meth:`publish` could not write to these paths.

        Call it before a long design. ``sources`` are files that must not be overwritten; with
        ``overwrite=False``, no existing file may be.
        """
        check_report_names(report, None)
        if Path(path).suffix.lower() != ".json":
            raise TableError(
                "Cells are written as JSON: choose a file name that ends in .json.",
                code="table.unknown_format",
                path=str(path),
            )
        outputs = [Path(path), SurveyDesign.manifest_path(path)]
        if report is not None:
            outputs.append(Path(report))
        check_distinct(outputs, sources=sources, overwrite=overwrite)

    def publish(
        self,
        path: str | Path,
        *,
        report: str | Path | None = None,
        confidential: bool = False,
        overwrite: bool = True,
    ) -> None:
        """Write the cells, their manifest and optionally an HTML report, all or nothing.

        The cells file is read back and checked before it replaces an existing one. Lookup cells
        contain the candidates' records: they are refused unless ``confidential`` is true, and are
        then readable only by their owner.
        """
        target = Path(path)
        sources = [] if self.source is None else [self.source]
        self.check_outputs(target, report=report, sources=sources, overwrite=overwrite)
        with AtomicFiles() as atomic:
            temporary = atomic.path(target)
            self.cells.save(temporary, confidential=confidential)
            check(load_cells(temporary)).require()
            if report is not None:
                atomic.path(Path(report)).write_text(self.render(), encoding="utf-8")
            # The manifest contains the digest of the cells, so it comes last.
            manifest = atomic.path(self.manifest_path(target), private=True)
            manifest.write_text(self.manifest.to_json(), encoding="utf-8")

    def render(self) -> str:
        """Return a report of the design as an HTML page without any value of the frame."""
        return render_design(
            self.manifest.model_dump(mode="json"), self.failures.by_cell, self.cells.sizes
        )


def design(
    frame: Any,
    schema: Schema | str | Path,
    k: int,
    participation: float | str = 0.75,
    failure: float = 1e-5,
    *,
    trust: str = "local",
    method: str = "auto",
    cells: str | None = None,
    max_boxes: int | None = None,
    seed: int = 0,
    missing: str = "error",
    **options: Any,
) -> SurveyDesign:
    """Design cells in which either nobody or at least k candidates take part.

    Parameters
    ----------
    frame
        Candidates with their quasi-identifiers: a table, as for :func:`anonymize`.
    schema
        Schema, or the path of its file. Only the quasi-identifiers are used; the frame does not
        need the other columns, which are collected later.
    k
        Minimum number of participants in a cell where anyone takes part, at least 2.
    participation
        Probability that a candidate takes part: a number for all candidates, or the name of a
        column of the frame with one probability per candidate. Candidates decide independently.
    failure
        Accepted probability that a cell has some participants, but fewer than k.
    trust
        "local": each respondent's own device finds the cell from a file. "none": respondents find
        their cell by hand on a printed form, which needs box-shaped cells.
    method, options
        Partitioning method and its options, as for :func:`anonymize`. With uneven participation
        there is only one method: cells grow until they meet the limit, followed by local search.
    cells
        Kind of cells for local trust: "power" (default), "balls" or "lookup". Lookup cells contain
        the candidates' records, so they are only suitable if these are public.
    max_boxes
        Maximum number of boxes on the printed form.
    seed
        Random seed.
    missing
        How to handle candidates without a quasi-identifier: "error", "drop" or "impute".

    Returns
    -------
    SurveyDesign
        Cells that meet the failure limit for the candidates as the cells themselves assign them.

    Raises
    ------
    GuaranteeError
        The limit cannot be met; in particular :class:`TooFewRecordsError`.

    Examples
    --------
    >>> from microcell import Schema
    >>> people = {"age": np.arange(600) % 71 + 18}
    >>> result = design(people, Schema(quasi=["age"]), 5, participation=0.5, failure=1e-3)
    >>> bool((result.failures.by_cell <= 1e-3).all())
    True
    """
    started = perf_counter()
    k = check_k(k)
    failure = check_failure(failure)
    kind = _choose_kind(trust, cells, max_boxes)
    prepare.check_handling(missing, seed)
    complete = prepare.as_schema(schema)
    reduced = quasi_identifiers_only(complete, participation)
    candidates = tables.read(frame)
    _check_candidates(candidates, complete)
    prepared = prepare.prepare(candidates, reduced, k=k, missing=missing, publish_cells=True)
    expected = Participation.read(participation, prepared.original, prepared.table)
    size = _min_cell_size(k, expected, failure, method, options)
    _check_enough(size, prepared.table.rows, k)
    published = prepared.encoded.encoding.published(k if kind == "boxes" or size is None else size)
    # Respondents only get the published encoding, without rare categories: candidates must be
    # placed exactly as respondents will be.
    points = encoding.place(prepared.table, published).matrix
    if points.shape[1] == 0:
        raise OptionError(
            "No quasi-identifier varies, so there is nothing to form cells by. Add one that "
            "differs between candidates.",
            code="option.unsupported",
            option="schema",
        )
    task = CellsTask(
        points, expected.each, k, failure, size, method, options, seed, max_boxes=max_boxes
    )
    built = _build(task, kind, published)
    labels = built.assign(points)
    failures = _prove(built, labels, task)
    finished = _with_survey_section(built, prepared, labels, task, failures, trust)
    request = {
        "method": method,
        "options": dict(options),
        "kind": kind,
        "seed": int(seed),
        "missing": missing,
    }
    manifest = _describe(finished, prepared, task, labels, failures, expected.column, request)
    manifest = manifest.updated(seconds=round(perf_counter() - started, 3))
    return SurveyDesign(finished, manifest, labels, failures, prepared.original.origin.path)


# --------------------------------------------------------------------------------------- inputs


def quasi_identifiers_only(schema: Schema, participation: object) -> Schema:
    """Return the schema with only the quasi-identifiers."""
    if schema.strata:
        raise SchemaError(
            "Surveys do not support strata. Design one survey per stratum, or remove the strata "
            "from the schema.",
            code="schema.invalid",
            columns=schema.strata,
        )
    if schema.weight is not None:
        raise SchemaError(
            "Surveys weight candidates by participation. Remove the weight column from the schema.",
            code="schema.invalid",
            column=schema.weight,
        )
    names = {part for column in schema.quasi for part in column.parts}
    if isinstance(participation, str) and participation in names:
        raise OptionError(
            f"The participation column {participation!r} is a quasi-identifier. Choose another "
            "column.",
            code="option.conflict",
            option="participation",
            column=participation,
        )
    reserved = {"cell", "design"} & names
    if reserved:
        raise OptionError(
            f"The name {min(reserved)!r} is reserved for a column of the answers. Rename this "
            "quasi-identifier in the frame and in the schema.",
            code="option.conflict",
            column=min(reserved),
            option="schema",
        )
    return replace(
        schema,
        identifiers=(),
        person=(),
        person_cells="rows",
        confidential=(),
        keep=(),
        drop=(),
        rest="drop",
    )


def _check_candidates(frame: Table, schema: Schema) -> None:
    """Raise SchemaError if a candidate has several rows: each takes part once, or not at all."""
    identifiers = [name for name in schema.identifiers if name in frame.columns]
    counted = replace(schema, identifiers=identifiers)  # others may come with the answers only
    people.check_people(frame, counted)
    if counted.person and frame.columns.keys() >= set(counted.person):
        distinct = len(auditing.class_sizes(frame, counted.person))
        if distinct < frame.rows:
            raise SchemaError(
                f"The sampling frame has {count(frame.rows, 'row')} of "
                f"{count(distinct, 'person')}, but needs one row per candidate: a candidate takes "
                "part or not. Keep one row per person; answers may repeat (collect with person).",
                code="schema.invalid",
                columns=list(counted.person),
                rows=frame.rows,
                distinct=distinct,
            )


@dataclass(frozen=True, eq=False)
class Participation:
    """Expected participation of each candidate."""

    each: Floats
    common: float | None
    """Probability of every candidate, if it is the same for all."""
    column: str | None
    """Column that the probabilities were read from."""

    @classmethod
    def read(cls, participation: object, original: Table, table: Table) -> "Participation":
        """Read a probability, or a column of ``table``, the part of ``original`` to design for."""
        if isinstance(participation, str):
            _check_column(participation, original)
            each = table.columns[participation].reals()
            common = float(each[0]) if (each == each[0]).all() else None
            return cls(each, common, participation)
        probability = check_probability(participation)
        return cls(np.full(table.rows, probability), probability, None)


def _check_column(name: str, table: Table) -> None:
    if name not in table.columns:
        raise SchemaError(
            f"The frame has no participation column {name!r}. Check the name.",
            code="schema.unknown_column",
            column=name,
        )
    values = table.columns[name]
    if not values.is_number:
        raise DataError(
            f"The participation column {name!r} must contain probabilities, not {values.storage} "
            "values.",
            code="data.not_a_number",
            column=name,
        )
    reals = values.reals()
    invalid = np.flatnonzero(~((reals >= MIN_PROBABILITY) & (reals <= 1)))
    if len(invalid):
        row = int(invalid[0]) + 1
        raise DataError(
            f"The participation column {name!r} must contain numbers greater than 0 and at most "
            f"1, but {count(len(invalid), 'row')} {'does' if len(invalid) == 1 else 'do'} not, "
            f"first in row {row}. Leave out candidates who cannot take part.",
            code="data.out_of_range",
            column=name,
            row=row,
            count=len(invalid),
        )


def _choose_kind(trust: str, cells: str | None, max_boxes: int | None) -> str:
    if trust not in KINDS_BY_TRUST:
        raise OptionError(
            f"trust must be one of {', '.join(KINDS_BY_TRUST)}.",
            code="option.unknown",
            option="trust",
        )
    kinds = KINDS_BY_TRUST[trust]
    kind = kinds[0] if cells is None else cells
    if kind not in kinds:
        raise OptionError(
            f"With trust {trust!r}, cells must be one of {', '.join(kinds)}.",
            code="option.unsupported",
            option="cells",
        )
    if max_boxes is not None and trust != "none":
        raise OptionError(
            "max_boxes limits a printed form, so it is only valid with trust='none'.",
            code="option.conflict",
            option="max_boxes",
        )
    return str(kind)


def _min_cell_size(
    k: int, expected: Participation, failure: float, method: str, options: Mapping[str, Any]
) -> int | None:
    """Return the smallest size of a cell, or None if participation is uneven."""
    if expected.common is not None:
        methods.check_method(method, options)
        return size_for_participation(k, expected.common, failure)
    if method != "auto" or options:
        raise OptionError(
            "With uneven participation there is only one method. Omit method and its options.",
            code="option.unsupported",
            option="method",
        )
    return None


def _check_enough(size: int | None, n_candidates: int, k: int) -> None:
    if size is not None and size > n_candidates:
        raise TooFewRecordsError(
            f"A cell needs {count(size, 'candidate')} for k = {k} within the failure limit, but "
            f"the frame has only {n_candidates:,}. Accept a higher failure probability, lower k, "
            "or add candidates.",
            code="guarantee.too_few_records",
            k=k,
            records=n_candidates,
            required=size,
        )


# --------------------------------------------------------------------------------------- stages


def _build(task: CellsTask, kind: str, published: Encoding) -> Cells:
    """Return cells with the encoding that respondents get."""
    if kind == "boxes":
        return make_boxes(
            task.points,
            published,
            task.k,
            task.probabilities,
            task.failure,
            most=task.max_boxes,
            seed=task.seed,
        )
    return replace(build_survey_cells(task, kind), k=task.min_size, encoding=published)


def _prove(cells: Cells, labels: Integers, task: CellsTask) -> FailureSummary:
    """Return the failure probabilities, or raise if the cells do not meet the limit."""
    progress.report("checking")
    sizes = np.bincount(labels, minlength=len(cells))
    if not np.array_equal(sizes, cells.sizes) or cells.sizes.min() < task.k:
        raise GuaranteeError(
            "The cells do not have the sizes they state, so no design was made. This is a bug in "
            "microcell; please report it.",
            code="guarantee.failed",
        )
    failures = summarize_failures(build_roster(labels, task.probabilities), task.k)
    n_failing = int((failures.by_cell > task.failure).sum())
    if n_failing:
        raise GuaranteeError(
            f"{count(n_failing, 'cell')} would exceed the failure limit, so no design was made. "
            "This is a bug in microcell; please report it.",
            code="guarantee.failed",
            cells=n_failing,
        )
    largest = np.zeros(len(cells))
    np.maximum.at(largest, labels, task.probabilities)
    sums = np.bincount(labels, weights=task.probabilities)
    n_dominated = int((largest > _DOMINANT * sums).sum())
    if n_dominated:
        raise GuaranteeError(
            f"In {count(n_dominated, 'cell')}, one candidate is so much more likely to take part "
            "than all others together that the published mean would reveal that candidate's "
            "record. Leave out candidates who hardly ever take part, or accept a lower failure "
            "probability.",
            code="guarantee.failed",
            cells=n_dominated,
        )
    return failures


def _with_survey_section(
    cells: Cells,
    prepared: prepare.Prepared,
    labels: Integers,
    task: CellsTask,
    failures: FailureSummary,
    trust: str,
) -> Cells:
    """Add representatives, weighted by participation, and the survey section of the file."""
    table, schema = prepared.table, prepared.schema
    representatives = aggregate.represent(table, schema, labels, task.probabilities)
    dropped = [name for name in table.names if name not in schema.keys]
    published = tables.publish(table, labels, representatives, dropped)
    survey = {
        "k": task.k,
        "failure": float(task.failure),
        "trust": trust,
        "participation": build_roster(labels, task.probabilities).as_section(),
        "cell_failures": np.minimum(failures.by_cell, 1.0).tolist(),
        **failures.as_dict(),
    }
    values = tables.values_of_cells(published, labels, list(published.names))
    return replace(cells, representatives=values, survey=survey)


# ------------------------------------------------------------------------------------- manifest


def _describe(
    cells: Cells,
    prepared: prepare.Prepared,
    task: CellsTask,
    labels: Integers,
    failures: FailureSummary,
    column: str | None,
    request: Mapping[str, Any],
) -> DesignManifest:
    """Return the manifest: how the cells were designed and what they achieve."""
    loss = _information_loss(task, labels)
    return DesignManifest(
        microcell=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        k=task.k,
        failure=float(task.failure),
        participation=ParticipationSection(
            column=column,
            common=float(task.probabilities[0]) if task.size is not None else None,
            mean=float(task.probabilities.mean()),
        ),
        method=MethodSection(requested=request["method"], options=request["options"]),
        kind=request["kind"],
        seed=request["seed"],
        missing=request["missing"],
        trust="none" if cells.kind == "boxes" else "local",
        columns=tuple(item.name for item in prepared.schema.quasi),
        frame=manifests.describe_table(prepared.original),
        candidates=CandidatesSection(read=prepared.original.rows, designed=prepared.table.rows),
        cells=_describe_cells(cells, task, labels, failures),
        table=TableFailureSection(**failures.as_dict()),
        expected_information_loss=loss,
        certainty=_compare_with_certainty(task, cells, labels, loss),
        cells_sha256=cells.digest,
        seconds=0.0,
    )


def _describe_cells(
    cells: Cells, task: CellsTask, labels: Integers, failures: FailureSummary
) -> DesignCellsSection:
    participants = np.bincount(labels, weights=task.probabilities)
    quartiles = np.quantile(failures.by_cell, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist()
    names = ("least", "lower", "median", "upper", "largest")
    return DesignCellsSection(
        count=len(cells),
        smallest=int(cells.sizes.min()),
        largest=int(cells.sizes.max()),
        least_size=task.min_size,
        expected_participants=ExpectedSection(
            least=float(participants.min()), mean=float(participants.mean())
        ),
        failure=FailureSection(**dict(zip(names, quartiles, strict=True))),
    )


def _information_loss(task: CellsTask, labels: Integers) -> float:
    """Return the expected distortion as a share of that of a single cell for all candidates."""
    total = expected_distortion(task.points, np.zeros_like(labels), task.probabilities)
    if total == 0:
        return 0.0
    return expected_distortion(task.points, labels, task.probabilities) / total


def _compare_with_certainty(
    task: CellsTask, cells: Cells, labels: Integers, loss: float
) -> CertaintySection:
    """Return the information loss with certain participation at the same k, and the ratio to it.

    For large surveys the ratio is computed on the neighbours of a random candidate, for whom cells
    are designed in both ways. Neighbours are as dense as the whole frame; a random sample is not.
    """
    progress.report("comparing with certain participation")
    published = cells.encoding
    assert published is not None
    n = len(task.points)
    if n > _MAX_COMPARED:
        centre = int(np.random.default_rng(task.seed).integers(n))
        distances = squared_distances(task.points, task.points[centre])
        task = task.take(np.sort(np.argsort(distances, kind="stable")[:_MAX_COMPARED]))
    n_compared = len(task.points)
    certain = replace(
        task,
        probabilities=np.ones(n_compared),
        size=None if task.size is None else task.k,
    )
    try:
        if n_compared < n:
            labels = _build(task, cells.kind, published).assign(task.points)
        uncertain_distortion = expected_distortion(task.points, labels, task.probabilities)
        certain_labels = _build(certain, cells.kind, published).assign(task.points)
    except GuaranteeError:  # The neighbours are too few for a cell; the design itself is fine.
        return CertaintySection(candidates=0)
    certain_distortion = expected_distortion(task.points, certain_labels, certain.probabilities)
    ratio = uncertain_distortion / certain_distortion if certain_distortion > 0 else None
    return CertaintySection(
        information_loss=loss / ratio if ratio else 0.0, ratio=ratio, candidates=n_compared
    )
