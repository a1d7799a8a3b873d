"""Collection of a survey: turn answers into a k-anonymous release."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from microcell import auditing, progress, tables
from microcell._display import count, html_card, short_repr
from microcell.cells import Cells
from microcell.errors import (
    GuaranteeError,
    OptionError,
    TooFewRecordsError,
)
from microcell.measures import people
from microcell.model import Audit, Integers, Schema, Table
from microcell.model.manifest import CellsSection, Manifest, RecordsSection, SurveySection
from microcell.release import manifest as manifests
from microcell.release import order
from microcell.release.publish import check_outputs, compose_reports, publish_table
from microcell.report import render
from microcell.schema import resolve
from microcell.surveys.answers import CELL, check_answers, find_cells
from microcell.surveys.counting import Counts, count_answers
from microcell.surveys.earlier import check_waves, describe_wave, keep_waves_apart
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

__all__ = ["BELOW", "Collection", "collect"]

_TITLE = "Survey release"

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
    check_waves(survey, earlier)
    settings = describe_answers(below, id, person, drop, late=late)
    if earlier and late:
        raise OptionError(
            "Late answers are not supported after the first wave. Include them in the next wave.",
            code="option.conflict",
            option="late",
        )
    if earlier:  # Without them, the same answers would give another release.
        settings["earlier"] = [describe_wave(*wave) for wave in earlier]
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
    counts = count_answers(survey, block, labels[rows], person, below)
    if earlier:
        counts = keep_waves_apart(survey, block, counts, earlier, id, below)
    turn = turn.take(rows)
    collection = _finish(survey, block, counts, person, dropped, turn, below, table)
    return collection.without(rejects.as_tuple())


def _finish(
    survey: SurveyCells,
    block: Table,
    counts: Counts,
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


# -------------------------------------------------------------------------------------- release


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
    counts: Counts,
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
