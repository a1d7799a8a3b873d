"""Collection of a survey: turn answers into a k-anonymous release."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from microcell import auditing, progress, tables
from microcell._display import count, html_card, short_repr
from microcell.cells import Cells
from microcell.errors import (
    DataError,
    GuaranteeError,
    OptionError,
    SchemaError,
    TooFewRecordsError,
)
from microcell.kernels.arrays import squared_distances
from microcell.measures import people
from microcell.measures.classes import number_values
from microcell.model import Audit, Floats, Integers, Mask, Schema, Table, Values
from microcell.model.manifest import CellsSection, Manifest, RecordsSection, SurveySection
from microcell.release import manifest as manifests
from microcell.release import order
from microcell.release.publish import check_outputs, compose_reports, publish_table
from microcell.report import render
from microcell.schema import resolve
from microcell.surveys.evidence import compare_participation
from microcell.surveys.ledger import (
    Entry,
    Ledger,
    Turn,
    describe_answers,
    open_turn,
    refuse_releases,
)
from microcell.surveys.rejects import Rejected, Rejects
from microcell.surveys.survey_cells import SurveyCells, load_survey_cells
from microcell.surveys.waves import combine_waves, read_answers

__all__ = [
    "BELOW",
    "CELL",
    "DESIGN",
    "Collection",
    "check_answers",
    "collect",
    "find_cells",
    "merge_cells",
]

_TITLE = "Survey release"

CELL = "cell"
"""Column of the answers with the cell number."""

DESIGN = "design"
"""Column of the answers with the digest of the design."""

BELOW = ("suppress", "merge")
"""How cells with 1 to k - 1 answers can be handled."""

INVALID = ("refuse", "reject")
"""What can be done about invalid answers."""

_COMPARING_MEASURES = (
    "records_unaccounted",
    "records_dropped",
    "columns_missing",
    "columns_unexpected",
    "values_changed",
)
"""Measures that compare a release with its original, which a survey does not have."""


@dataclass(frozen=True, eq=False, repr=False)
class Collection:
    """The release of a survey: a k-anonymous table with its audit and manifest.

    The order of the rows does not reveal the order of the answers.
    """

    table: Any
    """The release, as the same type of data frame as the answers."""
    manifest: Manifest
    audit: Audit
    released: Table
    """The release as a :class:`Table`."""
    schema: Schema
    attained: Integers
    """Number of people who answered per cell. Not for publication: it includes suppressed ones."""
    rejected: tuple[Rejected, ...] = ()
    """Answers that were left out because they are invalid."""
    persons: Integers | None = None
    """Person of each published row (a number), if a person may answer several times. Secret."""
    source: Path | None = None
    """File that the answers were read from."""
    ledger: Ledger | None = None
    """Ledger beside the cells file. None if the cells were not read from a file."""
    entry: Entry | None = None
    """What publishing adds to the ledger."""

    def __repr__(self) -> str:
        records = self.manifest.records
        return short_repr(
            self,
            f"{records.released:,} of {records.read:,} answers",
            k=self.manifest.k,
            cells=self.manifest.cells.count,
        )

    def _repr_html_(self) -> str:
        records = self.manifest.records
        return html_card(
            f"{self.manifest.k}-anonymous release of a survey",
            {
                "Answers": f"{records.released:,} published of {records.read:,}",
                "Cells": f"{self.manifest.cells.count:,}",
            },
            next_steps={'collection.publish("release.csv")': "write the release and its manifest"},
        )

    def without(self, rejected: tuple[Rejected, ...]) -> "Collection":
        """Return the collection with these answers listed as rejected."""
        assert self.manifest.survey is not None
        survey = self.manifest.survey.model_copy(update={"rejected": len(rejected)})
        return replace(self, rejected=rejected, manifest=self.manifest.updated(survey=survey))

    def publish(
        self,
        path: str | Path,
        *,
        report: str | Path | None = None,
        certificate: str | Path | None = None,
        overwrite: bool = True,
    ) -> "Collection":
        """Write the release, its manifest and, if requested, reports, as one atomic set.

        The file is read back and k counted again before it replaces an existing one; with
        ``overwrite=False`` existing files are an error. Returns the collection with the completed
        manifest.

        If the cells were read from a file, the release is first recorded in the ledger beside it
        (``cells.ledger.json`` for ``cells.json``), which prevents a second release of the design.
        Another release of the design in the folder of ``path`` is an error in any case.
        """
        sources = [] if self.source is None else [self.source]
        check_outputs(
            path, report=report, certificate=certificate, sources=sources, overwrite=overwrite
        )
        tables.check_writable(self.released, Path(path).suffix)
        companions = compose_reports(
            self.audit,
            report=report,
            certificate=certificate,
            title=_TITLE,
            require={"k": self.manifest.k},
            audience="public",
        )
        known = () if self.ledger is None else self.ledger.releases
        listed = {entry.order_key: entry.created for entry in known}
        if self.manifest.order_key is not None:
            listed[self.manifest.order_key] = self.manifest.created
        assert self.manifest.survey is not None
        refuse_releases(Path(path), self.manifest.survey.design_sha256, listed)
        if self.ledger is not None and self.entry is not None:
            self.ledger.record(self.entry)
        try:
            manifest = publish_table(
                self.released, path, self.manifest, prove=self._prove_file, companions=companions
            )
        except Exception:  # A killed process leaves the entry, so the same answers can be repeated.
            if self.ledger is not None and self.entry is not None:
                self.ledger.withdraw(self.entry)
            raise
        return replace(self, manifest=manifest)

    def _prove_file(self, written: Table) -> None:
        _prove(written, self.schema, self.manifest.k, self.released.rows, self.persons)

    def render(self, form: str = "html") -> str:
        """Return a public report of the release: the parts of an audit that need no original."""
        return render(
            self.audit,
            form,
            title=_TITLE,
            audience="public",
            require={"k": self.manifest.k},
        )


def collect(
    cells: Cells | str | Path,
    answers: Any,
    *,
    below: str = "suppress",
    id: str | None = None,
    person: str | None = None,
    drop: Sequence[str] = (),
    late: bool = False,
    invalid: str = "refuse",
    earlier: Sequence[tuple[str | Path, Any]] = (),
    order_key: str | Path | None = None,
) -> Collection:
    """Turn the answers of a survey into a k-anonymous release.

    Every record shares its quasi-identifiers with at least k - 1 others.

    Parameters
    ----------
    cells
        Cells of a survey, or the path of their file.
    answers
        A table, as for :func:`anonymize`, with a column ``cell`` (number of the respondent's cell)
        or the columns of the representatives; with both, they must agree. All other columns are
        published unchanged. If there is a column ``design``, it must contain the digest of these
        cells in every row.
    below
        How to handle cells with 1 to k - 1 answers: "suppress" leaves these answers out, "merge"
        joins such a cell with the nearest cell that has answers until there are k, and publishes
        the same representative for all of them.
    id
        Column that identifies respondents, to detect duplicates. It is not published.
    person
        Instead of ``id``, if a respondent may answer several times: the column that identifies
        respondents. k then counts distinct respondents. It is not published.
    drop
        Other columns not to publish.
    late
        Release answers that came after the first release, as a further block. Answers that were
        collected before are left out, and so are those in cells that were used before: a block has
        k answers in cells of its own.
    invalid
        What to do about answers that are duplicated, name an unknown cell, belong to another design
        or have values that their cell does not publish: "refuse" all answers with an error that
        names the rows, or "reject" these answers only; ``Collection.rejected`` lists them.
    earlier
        Earlier waves of the survey: pairs of the path of a cells file and its answers, with the
        same ``id``. Answers are then suppressed until the releases of all waves together have k
        people, or nobody, in each combination of cells.
    order_key
        Key of the order of the rows; see :func:`microcell.anonymize`. The ledger keeps it, so
        collecting the same answers again gives the same release.

    Raises
    ------
    GuaranteeError
        The ledger next to the cells file records a release of other answers.
    TooFewRecordsError
        There are fewer than k answers in total, or in every cell.
    DataError
        Answers are duplicated, name an unknown cell or belong to another design. The message
        names the rows.

    Examples
    --------
    >>> from microcell import Schema, surveys
    >>> people = {"age": np.arange(600) % 71 + 18}
    >>> schema = Schema(quasi=["age"])
    >>> design = surveys.design(people, schema, 5, 0.5, 1e-3, method="mdav")
    >>> participants = np.flatnonzero(np.random.default_rng(0).random(600) < 0.5)
    >>> answers = {"cell": design.labels[participants], "income": participants}
    >>> collect(design.cells, answers).audit["k"] >= 5
    True
    """
    survey = load_survey_cells(cells)
    if below not in BELOW:
        raise OptionError(
            f"below must be one of {', '.join(BELOW)}.", code="option.unknown", option="below"
        )
    if invalid not in INVALID:
        raise OptionError(
            f"invalid must be one of {', '.join(INVALID)}.",
            code="option.unknown",
            option="invalid",
        )
    progress.report("reading")
    table = tables.read(answers)
    rejects = Rejects(table.rows, listed=invalid == "reject")
    dropped = check_answers(survey, table, id=id, person=person, drop=drop, rejects=rejects)
    labels = find_cells(survey, table, rejects)
    _check_waves(survey, earlier)
    settings = describe_answers(below, id, person, drop, late=late)
    if earlier and late:
        raise OptionError(
            "Late answers of a further wave cannot be released: they would have to be combined "
            "with the first block too. Collect them with the next wave.",
            code="option.conflict",
            option="late",
        )
    if earlier:  # Without them, the same answers would give another release.
        settings["earlier"] = [_describe_wave(*wave) for wave in earlier]
    source = cells if isinstance(cells, (str, Path)) else None
    turn = open_turn(source, survey.cells.digest, table, settings, order_key)
    rows = np.intersect1d(turn.admitted(labels), rejects.valid_rows())
    block = table if len(rows) == table.rows else tables.take(table, rows, keep_index=False)
    if turn.late and len(rows) == 0:
        raise TooFewRecordsError(
            "Every answer was released before or is in a cell that was, so there is nothing to "
            "release.",
            code="guarantee.too_few_records",
            k=survey.k,
            records=0,
        )
    counts = _count_answers(survey, block, labels[rows], person, below)
    if earlier:
        counts = _keep_waves_apart(survey, block, counts, earlier, id, below)
    turn = turn.take(rows)
    collection = _finish(survey, block, counts, person, dropped, turn, below, table)
    return collection.without(rejects.as_tuple())


@dataclass(frozen=True, eq=False)
class _Counts:
    """Answers by cell, and the cell that each cell publishes (-1: suppressed or empty)."""

    labels: Integers
    persons: Integers | None
    answered: Integers
    """Number of answers of each cell."""
    attained: Integers
    """Number of people who answered in each cell."""
    groups: Integers
    withheld: Mask | None = None
    """Answers that are suppressed because of an earlier wave."""

    @property
    def rows(self) -> Integers:
        """Rows to be published."""
        published = self.groups[self.labels] >= 0
        return np.flatnonzero(published if self.withheld is None else published & ~self.withheld)


def _count_answers(
    survey: SurveyCells, table: Table, labels: Integers, person: str | None, below: str
) -> _Counts:
    k = survey.k
    persons = None if person is None else number_values(table.columns[person])
    n_people = table.rows if persons is None else len(np.unique(persons))
    _check_enough(n_people, k, "answer" if persons is None else "respondent")
    answered = np.bincount(labels, minlength=len(survey.cells))
    attained = answered.copy()
    attained[: int(labels.max()) + 1] = people.count_people(labels, persons)
    groups = np.where(attained >= k, np.arange(len(attained)), -1)
    if below == "merge":
        respondents = None if persons is None else _persons_by_cell(labels, persons)
        groups = merge_cells(survey.cells.centroids, answered, k, respondents)
    counts = _Counts(labels, persons, answered, attained, groups)
    if len(counts.rows) == 0:
        raise TooFewRecordsError(
            f"No cell has k = {k} answers, so nothing would be left to publish. Merge cells "
            "(below='merge'), or wait for more answers.",
            code="guarantee.too_few_records",
            k=k,
        )
    return counts


def _keep_waves_apart(
    survey: SurveyCells,
    block: Table,
    counts: _Counts,
    earlier: Sequence[tuple[str | Path, Any]],
    id: str | None,
    below: str,
) -> _Counts:
    """Withhold answers until all waves together have k people in each combination of cells."""
    if id is None or below != "suppress":
        raise OptionError(
            "With earlier waves, id must name the column that identifies respondents in all waves, "
            "and below must be 'suppress'.",
            code="option.conflict",
            option="earlier",
        )
    published = counts.groups[counts.labels] >= 0
    waves = [_read_wave(source, answers, id) for source, answers in earlier]
    keep = combine_waves(read_answers(block, id), counts.labels, published, waves, survey.k)
    left = np.bincount(counts.labels[keep], minlength=len(counts.groups))
    groups = np.where(left > 0, counts.groups, -1)
    counts = replace(counts, groups=groups, withheld=~keep)
    if len(counts.rows) == 0:
        raise TooFewRecordsError(
            "Together with the earlier waves, no answer can be published: in each combination of "
            "cells, fewer than k people would stand out. Design the first wave for later ones "
            "(next_wave, --next-wave).",
            code="guarantee.too_few_records",
            k=survey.k,
        )
    return counts


def _check_waves(survey: SurveyCells, earlier: Sequence[tuple[str | Path, Any]]) -> None:
    """Check that the wave which this one follows is among the earlier ones, if it must be."""
    wave = survey.survey.get("wave")
    if wave is None:
        return
    designs = [load_survey_cells(cells).cells.digest for cells, _ in earlier]
    if (earlier or wave["suppress"]) and wave["after"] not in designs:
        raise GuaranteeError(
            "These cells are those of a further wave and protect its participants only together "
            "with the answers of the wave before. Pass its cells file and answers (earlier, "
            "--earlier).",
            code="guarantee.failed",
        )


def _describe_wave(cells: str | Path, answers: Any) -> list[str]:
    """Return digests of an earlier wave, for the ledger."""
    design = load_survey_cells(cells).cells.digest
    return [design, tables.digest(tables.read(answers), key=design.encode()[:32])]


def _read_wave(cells: str | Path, answers: Any, id: str) -> "dict[str, int]":
    """Return the cell of each person that an earlier wave published."""
    survey = load_survey_cells(cells)
    table = tables.read(answers)
    rejects = Rejects(table.rows, listed=True)
    check_answers(survey, table, id=id, drop=(), rejects=rejects)
    labels = find_cells(survey, table, rejects)
    ledger = Ledger.beside(cells, survey.cells.digest)
    if not ledger.releases:
        raise OptionError(
            "An earlier wave has not been released: its ledger is missing or empty. Collect it "
            "first, or leave it out.",
            code="option.invalid",
            option="earlier",
        )
    published = ledger.knows(ledger.respondents(table, [id])) & rejects.valid
    known = {digest for entry in ledger.releases for digest in entry.known}
    if published.sum() < len(known):
        raise DataError(
            "Answers of an earlier wave are missing: its ledger lists more people than they have. "
            "Pass the answers that were collected, with the same id.",
            code="data.invalid",
            option="earlier",
        )
    rows = np.flatnonzero(published)
    names = np.array(read_answers(table, id))
    return dict(zip(names[rows].tolist(), labels[rows].tolist(), strict=True))


def _finish(
    survey: SurveyCells,
    block: Table,
    counts: _Counts,
    person: str | None,
    dropped: Sequence[str],
    turn: Turn,
    below: str,
    table: Table,
) -> Collection:
    """Release the answers of a block, which is all of the ``table`` unless it is a late one."""
    rows = counts.rows
    rows = rows[_row_order(block, survey.cells.digest, len(rows), turn.order_key)]
    # A pandas index would reveal the order of the answers, or who they are from.
    shuffled = tables.take(block, rows, keep_index=False)
    released = _release(survey, shuffled, counts.groups[counts.labels[rows]], dropped)
    schema = _release_schema(survey, released)
    published = None
    if counts.persons is not None:
        published = np.unique(counts.persons[rows], return_inverse=True)[1].reshape(-1)
    _prove(released, schema, survey.k, len(rows), published)
    manifest = _describe(survey, schema, block, released, counts, turn, below)
    used = np.flatnonzero((counts.groups >= 0) & (counts.answered > 0))
    return Collection(
        table=released.native,
        manifest=_with_person(manifest, schema, person, published),
        audit=_with_answers(_audit(released, schema, person, published), manifest),
        released=released,
        schema=schema,
        attained=counts.attained,
        persons=published,
        source=table.origin.path,
        ledger=turn.ledger,
        entry=turn.entry(manifest.created, used, rows),
    )


def _with_answers(audit: Audit, manifest: Manifest) -> Audit:
    """Add what happened to all answers: the suppressed ones are not in the released table."""
    records, survey = manifest.records, manifest.survey
    assert survey is not None
    test = survey.participation
    verb = "was" if records.dropped == 1 else "were"
    notes = [
        f"{count(records.read, 'answer')} arrived: {records.released:,} are published and "
        f"{records.dropped:,} {verb} suppressed.",
        f"{count(survey.cells_short, 'cell')} of {survey.cells_designed:,} had 1 to "
        f"{manifest.k - 1} participants, where {survey.expected_failures:.3g} were expected.",
    ]
    if test is not None:
        verdict = (
            "The assumed participation is refuted, so the promised failure probabilities do not "
            "hold for these answers"
            if test.refuted
            else "The answers fit the assumed participation"
        )
        notes.append(
            f"{verdict}: {test.participants:,} people took part, {test.expected:,.1f} were "
            f"expected (p = {test.p_total:.2g}; p = {test.p_cells:.2g} for the differences "
            "between cells)."
        )
    return replace(
        audit,
        rows_original=records.read,
        notes=(*notes, *audit.notes),
        public_notes=(*audit.public_notes, *notes),
    )


def _with_person(
    manifest: Manifest, schema: Schema, person: str | None, persons: Integers | None
) -> Manifest:
    if person is None:
        return manifest
    counted = replace(schema, person=(person,))
    return manifest.updated(**manifests.describe_people(counted, persons))


# -------------------------------------------------------------------------------------- answers


def check_answers(
    survey: SurveyCells,
    table: Table,
    *,
    id: str | None,
    drop: Sequence[str],
    person: str | None = None,
    rejects: Rejects | None = None,
) -> list[str]:
    """Check respondents and design of the answers; return the columns not to publish.

    Invalid rows are an error, or are listed in ``rejects``.
    """
    rejects = rejects or Rejects(table.rows)
    if isinstance(drop, str) or not isinstance(drop, Sequence):
        raise OptionError(
            "drop must be a list of column names.", code="option.wrong_type", option="drop"
        )
    if id is not None and person is not None:
        raise OptionError(
            "id states that every respondent answers once, and person that some answer several "
            "times. Pass one of them.",
            code="option.conflict",
            option="person",
        )
    own_columns = [name for name in (id, person) if name is not None]
    unknown = [name for name in (*drop, *own_columns) if name not in table.columns]
    if unknown:
        raise SchemaError(
            f"The answers have no column{'s' * (len(unknown) > 1)} "
            f"{', '.join(map(repr, unknown))}. Check the spelling in drop.",
            code="schema.unknown_column",
            columns=tuple(unknown),
            option="drop",
        )
    published = [name for name in drop if name in survey.representatives]
    if published:
        raise OptionError(
            f"{', '.join(map(repr, published))} cannot be dropped, because every cell publishes "
            f"{'it' if len(published) == 1 else 'them'}. Remove "
            f"{'it' if len(published) == 1 else 'them'} from drop.",
            code="option.conflict",
            option="drop",
            columns=tuple(published),
        )
    if id is not None:
        _check_unique(id, table.columns[id], rejects)
    if person is not None:
        rejects.add(
            table.columns[person].missing,
            "data.bad_key",
            f"Column {person!r} has no value",
            column=person,
        )
    if DESIGN in table.columns:
        _check_design(survey, table.columns[DESIGN], rejects)
    technical = {name for name in (CELL, DESIGN) if name in table.columns}
    return sorted({*technical, *own_columns, *drop} - set(survey.representatives))


def _check_unique(name: str, values: Values, rejects: Rejects) -> None:
    rejects.add(values.missing, "data.bad_key", f"Column {name!r} has no value", column=name)
    codes, _ = values.factorize()
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    repeated = np.isin(codes, codes[first[counts > 1]])
    repeated[first] = False
    rejects.add(
        repeated, "data.bad_key", f"Column {name!r} repeats an earlier respondent", column=name
    )


def _check_design(survey: SurveyCells, values: Values, rejects: Rejects) -> None:
    if values.storage != "text":
        raise DataError(
            f"Column {DESIGN!r} must contain the digest of the design as text. Rename the column "
            "if it means something else.",
            code="data.invalid",
            column=DESIGN,
        )
    codes, names = values.factorize()
    matches = np.array([*(name == survey.cells.digest for name in names), False])
    rejects.add(
        ~matches[codes],
        "table.mismatch",
        f"Column {DESIGN!r} names another design",
        column=DESIGN,
    )


def find_cells(survey: SurveyCells, table: Table, rejects: Rejects | None = None) -> Integers:
    """Return the cell of each answer, by its number or else by the representative.

    Answers without a cell are an error, or are listed in ``rejects`` (their cell is then 0).
    """
    rejects = rejects or Rejects(table.rows)
    if CELL in table.columns:
        labels = _find_by_number(table.columns[CELL], len(survey.cells), rejects)
        _check_agreement(survey, table, labels, rejects)
        return labels
    absent = [name for name in survey.representatives if name not in table.columns]
    if absent:
        raise SchemaError(
            f"The answers need either a column {CELL!r} or all columns of the representatives, "
            f"but {', '.join(map(repr, absent))} {'is' if len(absent) == 1 else 'are'} missing.",
            code="schema.unknown_column",
            columns=tuple(absent),
        )
    return _find_by_representative(survey, table, rejects)


def _check_agreement(survey: SurveyCells, table: Table, labels: Integers, rejects: Rejects) -> None:
    """Reject answers with other values than their cell publishes, which may be originals."""
    names = [name for name in survey.representatives if name in table.columns]
    answers = tables.values_of_cells(table, np.arange(table.rows), names) if names else {}
    for name in names:
        normalizer = _normalizer(survey.representatives[name])
        published = [_normalize(value, normalizer) for value in survey.representatives[name]]
        given = [_normalize(value, normalizer) for value in answers[name]]
        differs = [
            value is not None and value != published[cell]
            for value, cell in zip(given, labels.tolist(), strict=True)
        ]
        rejects.add(
            np.array(differs),
            "table.mismatch",
            f"Column {name!r} differs from what the cell publishes, so it may hold original values "
            "that nobody should have sent,",
            column=name,
        )


def _find_by_number(values: Values, n_cells: int, rejects: Rejects) -> Integers:
    if not values.is_number:
        raise DataError(
            f"Column {CELL!r} must contain cell numbers from 0 to {n_cells - 1}, not "
            f"{values.storage} values.",
            code="data.not_a_number",
            column=CELL,
        )
    numbers = values.reals()
    with np.errstate(invalid="ignore"):
        valid = (numbers >= 0) & (numbers < n_cells) & (numbers == np.floor(numbers))
    rejects.add(
        ~valid,
        "data.unknown_category",
        f"Column {CELL!r} is not a cell number from 0 to {n_cells - 1}",
        column=CELL,
    )
    return np.where(valid, numbers, 0).astype(np.int64)


def _find_by_representative(survey: SurveyCells, table: Table, rejects: Rejects) -> Integers:
    """Return, for each answer, the first cell that publishes its values."""
    names = list(survey.representatives)
    normalizers = [_normalizer(survey.representatives[name]) for name in names]

    def key(values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(
            _normalize(value, normalizer)
            for value, normalizer in zip(values, normalizers, strict=True)
        )

    published = zip(*(survey.representatives[name] for name in names), strict=True)
    cells: dict[tuple[Any, ...], int] = {}
    for cell, values in enumerate(published):
        cells.setdefault(key(values), cell)
    answers = tables.values_of_cells(table, np.arange(table.rows), names) if table.rows else {}
    rows = zip(*(answers[name] for name in names), strict=True) if answers else ()
    labels = np.array([cells.get(key(row), -1) for row in rows], dtype=np.int64)
    rejects.add(labels < 0, "data.unknown_category", "No cell publishes the values")
    return np.maximum(labels, 0)


def _normalizer(values: Sequence[Any]) -> Callable[[Any], Any]:
    """Return a function that unifies spellings of a value, such as 3 and 3.0, or true and True.

    Whether a date is written with a time depends on the other values of its column.
    """
    types = {type(value) for value in values if value is not None}
    if types == {bool}:
        return lambda value: str(value).lower()
    if types <= {int, float}:
        return float
    return lambda value: str(value).removesuffix("T00:00:00")


def _normalize(value: Any, normalizer: Callable[[Any], Any]) -> Any:
    if value is None or (isinstance(value, str) and not value):
        return None
    try:
        return normalizer(value)
    except (TypeError, ValueError):
        return str(value)


def _check_enough(n: int, k: int, noun: str) -> None:
    if n < k:
        raise TooFewRecordsError(
            f"The table has {count(n, noun)}, fewer than k = {k}. Wait for more {noun}s.",
            code="guarantee.too_few_records",
            k=k,
            records=n,
            unit=f"{noun}s",
        )


# -------------------------------------------------------------------------------------- release


def merge_cells(
    centroids: Floats,
    attained: Integers,
    k: int,
    respondents: Mapping[int, set[int]] | None = None,
) -> Integers:
    """Return, for each cell, the cell whose representative it publishes; -1 without answers.

    The group with the fewest answers (in a tie, the first) joins the group with the nearest mean,
    until every group has at least k answers. With ``respondents`` (the respondents of each cell),
    distinct respondents are counted instead of answers. The mean of a group is the mean of its
    cells' centroids weighted by answers. A group publishes the representative of its cell nearest
    to that mean. There must be at least k answers or respondents in total. Time O(G^2 m) for G
    cells with answers.

    Examples
    --------
    >>> merge_cells(np.array([[0.0], [1.0], [5.0], [9.0]]), np.array([1, 4, 0, 3]), 3)
    array([ 1,  1, -1,  3])
    """
    used = np.flatnonzero(attained)
    group = np.arange(len(used))
    means = centroids[used].copy()
    counts = attained[used].astype(np.float64)
    persons = None if respondents is None else [set(respondents[cell]) for cell in used.tolist()]
    n_people = counts if persons is None else np.array([float(len(each)) for each in persons])
    while len(np.flatnonzero(counts)) > 1:
        alive = np.flatnonzero(counts)
        fewest = int(alive[np.argmin(n_people[alive])])
        if n_people[fewest] >= k:
            break
        others = alive[alive != fewest]
        target = int(others[squared_distances(means[others], means[fewest]).argmin()])
        total = counts[fewest] + counts[target]
        weighted = means[fewest] * counts[fewest] + means[target] * counts[target]
        means[target] = weighted / total
        counts[target] = total
        counts[fewest] = 0.0
        if persons is not None:
            persons[target] |= persons[fewest]
            n_people[target] = len(persons[target])
        group[group == fewest] = target
    published = np.full(len(attained), -1)
    for number in np.unique(group):
        members = used[group == number]
        nearest = squared_distances(centroids[members], means[number]).argmin()
        published[members] = members[nearest]
    return published


def _persons_by_cell(labels: Integers, persons: Integers) -> dict[int, set[int]]:
    cells: dict[int, set[int]] = {}
    for cell, person in zip(labels.tolist(), persons.tolist(), strict=True):
        cells.setdefault(cell, set()).add(person)
    return cells


def _row_order(table: Table, design: str, n_rows: int, order_key: str) -> Integers:
    """Return a row order that nobody can reproduce without the key, even with the answers."""
    context = tables.digest(table, key=design.encode())
    return order.draw_order(n_rows, order_key, context.encode())


def _release(survey: SurveyCells, table: Table, groups: Integers, dropped: Sequence[str]) -> Table:
    """Replace the quasi-identifiers of the answers with the representatives of their groups."""
    # The cell column keeps the table from becoming empty when the old columns are dropped.
    answers = table if CELL in table.columns else tables.add_columns(table, {CELL: groups})
    replaced = [name for name in survey.representatives if name in answers.columns]
    others = tables.publish(answers, groups, {}, replaced)
    representatives = {
        name: _as_array(values)[groups] for name, values in survey.representatives.items()
    }
    combined = tables.add_columns(others, representatives)
    return tables.publish(combined, groups, {}, [*dropped, *({CELL} - set(dropped))])


def _as_array(values: Sequence[Any]) -> Any:
    """Return the representatives of a column as booleans, numbers or text."""
    present = [value for value in values if value is not None]
    if present and len(present) == len(values) and all(isinstance(v, bool) for v in present):
        return np.array(values)
    if present and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in present):
        return np.array([np.nan if value is None else value for value in values])
    return np.array(["" if value is None else str(value) for value in values])


def _release_schema(survey: SurveyCells, released: Table) -> Schema:
    quasi = list(survey.representatives)
    others = [name for name in released.names if name not in quasi]
    return resolve.resolve(Schema(quasi=quasi, confidential=others), released)


def _prove(released: Table, schema: Schema, k: int, n_rows: int, persons: Integers | None) -> None:
    """Count k on the table about to be published, as an outsider would."""
    classes = auditing.class_labels(released, schema.keys)
    if persons is not None and len(persons) != len(classes):
        persons = None  # rows were lost, which is an error in any case
    smallest = int(people.count_people(classes, persons).min(initial=n_rows))
    if smallest < k or released.rows != n_rows:
        raise GuaranteeError(
            f"The finished table has {count(released.rows, 'record')} and a smallest class of "
            f"{smallest}, instead of {count(n_rows, 'record')} and k = {k}. Nothing was released. "
            "This is a bug in microcell; please report it.",
            code="guarantee.failed",
            k=k,
            records=released.rows,
            smallest=smallest,
        )


def _audit(released: Table, schema: Schema, person: str | None, persons: Integers | None) -> Audit:
    """Audit what an outsider sees in the release alone, with the persons of its rows counted."""
    original, rows = released, None
    if person is not None and persons is not None:
        original, rows = tables.add_columns(released, {person: persons}), np.arange(released.rows)
        schema = replace(schema, person=(person,))
    audit = auditing.audit(original, released, schema, pairs=rows, brief=True)
    measures = {
        name: measure for name, measure in audit.measures.items() if name not in _COMPARING_MEASURES
    }
    return replace(audit, measures=measures)


def _describe(
    survey: SurveyCells,
    schema: Schema,
    table: Table,
    released: Table,
    counts: _Counts,
    turn: Turn,
    below: str,
) -> Manifest:
    """Return the manifest. It counts the cells with too few answers but does not name them."""
    groups, attained = counts.groups, counts.attained
    sizes = np.bincount(groups[counts.labels[counts.rows]])
    sizes = sizes[sizes > 0]
    return manifests.build_manifest(
        schema,
        released.names,
        created=turn.created,
        k=survey.k,
        input=manifests.describe_table(table),
        records=RecordsSection(
            read=table.rows, released=released.rows, dropped=table.rows - released.rows
        ),
        cells=CellsSection(count=len(sizes), smallest=int(sizes.min()), largest=int(sizes.max())),
        survey=SurveySection(
            design_sha256=survey.cells.digest,
            below=cast("Literal['suppress', 'merge']", below),
            cells_designed=len(attained),
            cells_empty=int((attained == 0).sum()),
            cells_short=int(((attained > 0) & (attained < survey.k)).sum()),
            median_size=float(np.median(sizes)),
            expected_failures=float(np.sum(survey.survey["cell_failures"])),
            late=turn.late,
            participation=None if turn.late else compare_participation(survey, attained),
        ),
        row_order="shuffled",
        order_key=turn.order_key,
    )
