"""Design of a survey: cells of candidates that are published before anyone answers."""

from collections.abc import Iterable, Mapping, Sequence
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
from microcell._validation import check_probability as check_chance
from microcell.cells import Cells, load_cells
from microcell.cells.survey_section import FAILURE_OF
from microcell.errors import (
    DataError,
    GuaranteeError,
    OptionError,
    SchemaError,
    TableError,
    TooFewRecordsError,
)
from microcell.kernels.arrays import squared_distances
from microcell.kernels.participation import correlated_exposure, correlated_size
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
from microcell.surveys.waves import least_participation

__all__ = ["Participation", "SurveyDesign", "design", "quasi_identifiers_only"]

_MAX_COMPARED = 10_000
"""Maximum number of candidates in the comparison with certain participation; all are neighbours."""

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
                "Failure if somebody takes part": f"{self.failures.worst_conditional:.3g} at most",
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
        """Write the cells, their manifest and, if requested, an HTML report, as one atomic set.

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
    participation: float | str | tuple[float | str, float | str] = 0.75,
    failure: float = 1e-5,
    *,
    trust: str = "local",
    method: str = "auto",
    failure_of: str | None = None,
    correlation: float = 0.0,
    next_wave: float | None = None,
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
        column of the frame with one probability per candidate. A pair of either is an interval: the
        cells then meet the limit for a participant for all probabilities within it.
        Candidates decide independently unless there is a ``correlation``.
    failure
        Accepted probability that a cell has some participants, but fewer than k.
    failure_of
        What the limit holds for. "participant" limits the probability given that somebody takes
        part in the cell, and given that any particular candidate does; it is the default if
        participation is uneven. "cell" limits the probability that the cell fails at all. It is the
        default if participation is the same for everybody; if it is uneven, a cell can meet it
        although whoever takes part is almost surely exposed, because hardly anybody does.
    correlation
        Correlation between the decisions of any two candidates of a cell, at least 0 and less than
        1, if participation is the same for everybody and trust is local. The number of participants
        is then beta-binomial, and the limit is that for a participant. The cells file states the
        failure of independent candidates, which is smaller.
    next_wave
        Probability that a candidate takes part in a second wave with the same cells (see
        :func:`next_wave`). The cells are then large enough for both releases together: for those
        who take part in both waves, and in either of them only. The limit is that for a
        participant.
    trust
        "local": each respondent's own device finds the cell from a file. "none": respondents find
        their cell by hand on a printed form, which needs box-shaped cells.
    method, options
        Partitioning method and its options, as for :func:`anonymize`. With uneven participation
        there is only one method: cells grow until they meet the limit, followed by local search.
    cells
        Kind of cells for local trust: "power", "balls" or "lookup". The default is power, or the
        better of power and balls if participation is uneven. Lookup cells contain the candidates'
        records, so they are only suitable if these are public.
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
    expected = expected.with_next_wave(next_wave)
    failure_of = _choose_failure_of(failure_of, expected, correlation)
    conditional = failure_of == "participant"
    size = _min_cell_size(k, expected, failure, method, options, conditional=conditional)
    if correlation:
        size = _correlated_size(k, expected, failure, correlation, kind, prepared.table.rows)
    _check_enough(size, prepared.table.rows, k)
    published = prepared.encoded.encoding.published(k if kind == "boxes" or size is None else size)
    # Respondents only get the published encoding, without rare categories: candidates must be
    # placed exactly as respondents will be.
    points = encoding.place(prepared.table, published).matrix
    if points.shape[1] == 0:
        raise OptionError(
            "No quasi-identifier varies, so candidates cannot be divided into cells. Add one "
            "that differs between candidates.",
            code="option.unsupported",
            option="schema",
        )
    task = CellsTask(
        points,
        expected.each,
        k,
        failure,
        size,
        method,
        options,
        seed,
        max_boxes=max_boxes,
        conditional=conditional,
    )
    both = cells is None and kind == "power" and size is None and len(points) <= _MAX_COMPARED
    built = _build_better(task, published) if both else _build(task, kind, published)
    labels = built.assign(points)
    if expected.waves is not None:  # the file and the manifest state the first wave
        task = replace(task, probabilities=expected.waves[0].each)
    failures = _prove(built, labels, task)
    _prove_correlated(built, task, correlation)
    finished = _with_survey_section(built, prepared, labels, task, failures, trust, expected.upper)
    request = {
        "method": method,
        "options": dict(options),
        "kind": built.kind,
        "seed": int(seed),
        "missing": missing,
    }
    described = expected.describe(correlation)
    manifest = _describe(finished, prepared, task, labels, failures, described, request)
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
    ends = participation if isinstance(participation, (tuple, list)) else [participation]
    used = [name for name in ends if isinstance(name, str) and name in names]
    if used:
        raise OptionError(
            f"The participation column {used[0]!r} is a quasi-identifier. Choose another column.",
            code="option.conflict",
            option="participation",
            column=used[0],
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
    """Raise SchemaError if a candidate has several rows: each candidate takes part at most once."""
    identifiers = [name for name in schema.identifiers if name in frame.columns]
    counted = replace(schema, identifiers=identifiers)  # others may come with the answers only
    people.check_people(frame, counted)
    if counted.person and frame.columns.keys() >= set(counted.person):
        distinct = len(auditing.class_sizes(frame, counted.person))
        if distinct < frame.rows:
            raise SchemaError(
                f"The sampling frame has {count(frame.rows, 'row')} of "
                f"{count(distinct, 'person')}, but needs one row per candidate. Keep one row "
                "per person; several answers per person can be collected with person "
                "(--person).",
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
    upper: Floats | None = None
    """Upper end of the interval of each candidate, if the others are lower ends."""
    waves: "tuple[Participation, float] | None" = None
    """Participation in the first and in the second wave, if the cells are for both."""

    @classmethod
    def read(cls, participation: object, original: Table, table: Table) -> "Participation":
        """Read a probability, or a column of ``table``, the part of ``original`` to design for.

        A pair of them is an interval.
        """
        if isinstance(participation, (tuple, list)):
            return cls._read_interval(participation, original, table)
        if isinstance(participation, str):
            _check_column(participation, original)
            each = table.columns[participation].reals()
            common = float(each[0]) if (each == each[0]).all() else None
            return cls(each, common, participation)
        probability = check_probability(participation)
        return cls(np.full(table.rows, probability), probability, None)

    @classmethod
    def _read_interval(
        cls, ends: Sequence[object], original: Table, table: Table
    ) -> "Participation":
        if len(ends) != 2 or any(isinstance(end, (tuple, list)) for end in ends):
            raise OptionError(
                "An interval of participation is a pair: its lower and its upper end.",
                code="option.invalid",
                option="participation",
            )
        low, high = (cls.read(end, original, table) for end in ends)
        if (low.each > high.each).any():
            raise OptionError(
                "The lower end of the participation must not exceed the upper end.",
                code="option.out_of_range",
                option="participation",
            )
        return replace(low, upper=high.each)

    def with_next_wave(self, next_wave: float | None) -> "Participation":
        """Return the least participation to design for if there is a second wave."""
        if next_wave is None:
            return self
        if self.upper is not None:
            raise OptionError(
                "A design for two waves needs participation to be known, not an interval.",
                code="option.conflict",
                option="next_wave",
            )
        second = check_chance(next_wave, "next_wave")
        if self.common is None and (self.each == 1).any():
            raise OptionError(
                "A design for two waves needs a participation below 1: nobody who is certain to "
                "take part hides those who take part in the second wave only. Lower it, for "
                "example to 0.99.",
                code="option.conflict",
                option="next_wave",
            )
        first = np.full(1, self.common) if self.common is not None else self.each
        least = least_participation(first, second)
        common = float(least[0]) if self.common is not None else None
        each = np.full(len(self.each), common) if common is not None else least
        return replace(self, each=each, common=common, waves=(self, second))

    def describe(self, correlation: float) -> ParticipationSection:
        """Return the section of the manifest."""
        first = self if self.waves is None else self.waves[0]
        return ParticipationSection(
            column=first.column,
            common=first.common,
            mean=float(first.each.mean()),
            upper=None if self.upper is None else float(self.upper.mean()),
            next_wave=None if self.waves is None else self.waves[1],
            correlation=correlation or None,
        )


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


def _choose_failure_of(failure_of: str | None, expected: Participation, correlation: float) -> str:
    is_number = isinstance(correlation, (int, float)) and not isinstance(correlation, bool)
    if not is_number or not 0 <= correlation < 1:
        raise OptionError(
            "correlation must be a number of at least 0 and less than 1.",
            code="option.out_of_range",
            option="correlation",
        )
    needs_participant = expected.upper is not None or expected.waves is not None or correlation > 0
    if failure_of == "cell" and needs_participant:
        raise OptionError(
            "With an interval of participation, a second wave or a correlation, the limit is that "
            "for a participant, which implies the limit for a cell. Omit failure_of.",
            code="option.conflict",
            option="failure_of",
        )
    if failure_of is None:
        return "participant" if expected.common is None or needs_participant else "cell"
    if failure_of not in FAILURE_OF:
        raise OptionError(
            f"failure_of must be one of {', '.join(FAILURE_OF)}.",
            code="option.unknown",
            option="failure_of",
        )
    return failure_of


def _min_cell_size(
    k: int,
    expected: Participation,
    failure: float,
    method: str,
    options: Mapping[str, Any],
    *,
    conditional: bool,
) -> int | None:
    """Return the smallest size of a cell, or None if participation is uneven."""
    if expected.common is not None:
        methods.check_method(method, options)
        return size_for_participation(k, expected.common, failure, conditional=conditional)
    if method != "auto" or options:
        raise OptionError(
            "With uneven participation there is only one method. Omit method and its options.",
            code="option.unsupported",
            option="method",
        )
    return None


def _correlated_size(
    k: int, expected: Participation, failure: float, correlation: float, kind: str, most: int
) -> int:
    """Return the smallest size of a cell of candidates who decide together."""
    if expected.common is None or kind == "boxes":
        raise OptionError(
            "A correlation requires the same participation for everybody and local trust.",
            code="option.unsupported",
            option="correlation",
        )
    size = correlated_size(k, expected.common, correlation, failure, most)
    if size is None:
        raise TooFewRecordsError(
            f"All {count(most, 'candidate')} together do not meet the failure limit with k = {k} "
            f"and a correlation of {correlation:g}. Accept a higher failure probability or lower "
            "k: with a correlation, more candidates help little.",
            code="guarantee.too_few_records",
            k=k,
            records=most,
        )
    return size


def _prove_correlated(cells: Cells, task: CellsTask, correlation: float) -> None:
    """Raise if a cell exceeds the limit under the assumed correlation."""
    if not correlation:
        return
    participation = float(task.probabilities[0])
    failing = [
        size
        for size in np.unique(cells.sizes).tolist()
        if correlated_exposure(size, task.k, participation, correlation) > task.failure
    ]
    if failing:
        raise GuaranteeError(
            "Cells would exceed the failure limit under the assumed correlation, so no design was "
            "made. This is a bug in microcell; please report it.",
            code="guarantee.failed",
            cells=len(failing),
        )


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
            conditional=task.conditional,
        )
    return replace(build_survey_cells(task, kind), k=task.min_size, encoding=published)


def _build_better(task: CellsTask, published: Encoding) -> Cells:
    """Return the power cells or the balls, whichever have the smaller expected distortion.

    Under uneven participation each of the two can be better by far.
    """
    built = [_build(task, kind, published) for kind in ("power", "balls")]
    distortions = [
        expected_distortion(task.points, cells.assign(task.points), task.probabilities)
        for cells in built
    ]
    return built[int(np.argmin(distortions))]


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
    limited = failures.conditional if task.conditional else failures.by_cell
    n_failing = int((limited > task.failure).sum())
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
    upper: Floats | None,
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
        "failure_of": "participant" if task.conditional else "cell",
        "cell_failures": np.minimum(failures.by_cell, 1.0).tolist(),
        "conditional_failures": failures.conditional.tolist(),
        **failures.as_dict(),
    }
    if upper is not None:
        survey["most_participants"] = float(upper.sum())
    values = tables.values_of_cells(published, labels, list(published.names))
    return replace(cells, representatives=values, survey=survey)


# ------------------------------------------------------------------------------------- manifest


def _describe(
    cells: Cells,
    prepared: prepare.Prepared,
    task: CellsTask,
    labels: Integers,
    failures: FailureSummary,
    participation: ParticipationSection,
    request: Mapping[str, Any],
) -> DesignManifest:
    """Return the manifest: how the cells were designed and what they achieve."""
    loss = _information_loss(task, labels)
    return DesignManifest(
        microcell=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        k=task.k,
        failure=float(task.failure),
        failure_of="participant" if task.conditional else "cell",
        participation=participation,
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
    given = np.quantile(failures.conditional, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist()
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
        conditional_failure=FailureSection(**dict(zip(names, given, strict=True))),
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
