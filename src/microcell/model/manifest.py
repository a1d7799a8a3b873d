"""The manifest of a release: how it was produced, in typed sections that are stored as JSON.

A manifest contains settings, counts, digests and names of columns, and no value of the table.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from microcell._display import count, html_card, short_repr
from microcell._files import parse_json, read_bytes
from microcell.errors import TableError

__all__ = [
    "ORDER_KEY_PATTERN",
    "BatchSection",
    "BlocksSection",
    "BoundSection",
    "CandidatesSection",
    "CellsSection",
    "CertaintySection",
    "ColumnSection",
    "DependenceSection",
    "DesignCellsSection",
    "DesignManifest",
    "DominanceSection",
    "ExpectedSection",
    "FailureSection",
    "FileSection",
    "Manifest",
    "MethodSection",
    "ParticipationSection",
    "PersonSection",
    "RecordsSection",
    "RequirementsSection",
    "Section",
    "SuppressionSection",
    "SurveySection",
    "TableFailureSection",
    "TableSection",
]

_LONGEST_SHOWN = 40
"""Longer texts, such as digests, are left out of the ``repr`` of a section."""

ORDER_KEY_PATTERN = "[0-9a-f]{32}"
"""128 bits, in hexadecimal."""


class Section(BaseModel):
    """Part of a manifest."""

    # Validators are built on first use, as most runs need few of them.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def __repr__(self) -> str:
        scalars = {
            name: value
            for name, value in self
            if isinstance(value, (bool, int, float))
            or (isinstance(value, str) and len(value) <= _LONGEST_SHOWN)
        }
        return short_repr(self, **scalars)

    __str__ = __repr__


class BatchSection(Section):
    """One batch of an incremental session."""

    records: int = Field(description="Records in the batch.")
    seconds: float = Field(description="Time spent on adding the batch.")
    strategy: str | None = Field(default=None, description="How the batch was added.")
    inertial: bool | None = Field(
        default=None, description="Whether existing cells kept their records."
    )


class MethodSection(Section):
    """The partitioning method."""

    requested: str = Field(description="Method that was requested, possibly `auto`.")
    used: str | None = Field(default=None, description="Method that was used.")
    reason: str | None = Field(default=None, description="Why this method was used.")
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the method.")
    base: BatchSection | None = Field(default=None, description="First batch of a session.")
    batches: tuple[BatchSection, ...] | None = Field(
        default=None, description="Batches added to a session after the first one."
    )


class ColumnSection(Section):
    """Role of a column of the original table, and how it is published."""

    role: str = Field(description="Role of the column in the schema.")
    kind: str | None = Field(default=None, description="Kind of a quasi-identifier.")
    publish: str | None = Field(
        default=None, description="Representative that each cell publishes."
    )
    weight: float | None = Field(
        default=None, description="Factor on the column's squared distances."
    )
    after: str | None = Field(
        default=None, description="Column before which no published value lies."
    )
    difference_of: tuple[str, ...] | None = Field(
        default=None, description="Two columns whose difference is published."
    )
    sum_of: tuple[str, ...] | None = Field(
        default=None, description="Columns whose sum is published."
    )
    round: float | None = Field(
        default=None, description="Step to multiples of which a confidential number is rounded."
    )
    top: float | None = Field(
        default=None, description="Largest published value of a confidential number."
    )
    bottom: float | None = Field(
        default=None, description="Smallest published value of a confidential number."
    )
    noise: float | None = Field(
        default=None,
        description="Variance of the noise added to a confidential number, as a share of the "
        "column's variance.",
    )
    swap: float | None = Field(
        default=None,
        description="Largest difference of ranks, as a share of the records, of exchanged values.",
    )
    most_false: float | None = Field(
        default=None,
        description="Largest share of a cell's members for whom its published mode may be false.",
    )
    step: float | str | None = Field(
        default=None, description="Resolution of the bounds of published ranges."
    )
    hierarchy: str | None = Field(
        default=None, description="Hierarchy of the values: its name, or the widths of bands."
    )


class TableSection(Section):
    """Size and digest of a table."""

    rows: int = Field(description="Number of rows.")
    columns: int = Field(description="Number of columns.")
    sha256: str = Field(description="SHA-256 digest, in hexadecimal.")
    sha256_of: Literal["file", "contents", "files"] = Field(
        description="What the digest covers: the file, the contents of an in-memory table, "
        "or the digests of all files of a data set, in order."
    )
    files: int | None = Field(default=None, description="Number of files of a data set.")
    reading: dict[str, Any] | None = Field(
        default=None, description="Options that the file was read with, such as `na`."
    )


class FileSection(Section):
    """A file written together with the release."""

    path: str = Field(description="Path, relative to the manifest.")
    sha256: str = Field(description="SHA-256 digest of the file, in hexadecimal.")


class RecordsSection(Section):
    """Number of records at each step: read = released + dropped + suppressed."""

    read: int = Field(description="Records in the original table.")
    released: int = Field(description="Records in the release.")
    dropped: int = Field(description="Records left out because of missing quasi-identifiers.")
    suppressed: int | None = Field(
        default=None, description="Records left out because they cost most."
    )
    imputed: int | None = Field(
        default=None, description="Missing values of quasi-identifiers that were imputed."
    )


class CellsSection(Section):
    """The cells of the partition."""

    count: int = Field(description="Number of cells.")
    smallest: int = Field(description="Records in the smallest cell.")
    largest: int = Field(description="Records in the largest cell.")
    sizes: dict[str, int] | None = Field(default=None, description="Number of cells of each size.")
    sse_ratio: float | None = Field(
        default=None,
        description="SSE / SST of the encoded records: the objective of the partition.",
    )
    function: str | None = Field(
        default=None, description="Kind of cells, if the release can assign further records."
    )
    classes: int | None = Field(
        default=None, description="Equivalence classes counted in the files of a data set."
    )
    macrocells: int | None = Field(
        default=None, description="Number of parts of a data set that were partitioned separately."
    )


class SuppressionSection(Section):
    """Records left out because they cost most."""

    share: float = Field(description="Largest share of the records that could be left out.")
    records: int = Field(description="Number of records left out.")
    saved: float = Field(
        description="Relative reduction of the sum of squares within cells, estimated on the "
        "scale of all records by the search that chose them."
    )
    exact: bool = Field(description="Whether no other choice saves more.")
    rows: tuple[int, ...] | None = Field(
        default=None,
        description="Row numbers of these records in the original, from 1. Keep them secret, like "
        "the key of the row order.",
    )


class BoundSection(Section):
    """Bound on the distance of the cells from the optimum, rounded such that it remains valid."""

    sse_ratio: float = Field(
        description="No partition of the encoded records into cells of at least k records has a "
        "lower SSE / SST. Rounded down to three significant digits."
    )
    gap: float = Field(
        description="Largest share of the cells' SSE / SST that other cells could save; 0 if the "
        "cells are optimal."
    )
    proof: str = Field(description="How the bound was proved.")


class PersonSection(Section):
    """The persons that k counts, if a person may have several rows."""

    columns: tuple[str, ...] = Field(description="Columns that identify persons.")
    cells: Literal["rows", "together"] = Field(
        description="Whether the rows of a person may lie in different cells, or share one."
    )
    count: int = Field(description="Number of persons in the release.")
    most_rows: int = Field(description="Largest number of rows of one person.")
    sha256: str | None = Field(
        default=None,
        description="Digest of the set of persons, by which other releases of them are recognized.",
    )


class DominanceSection(Section):
    """Dominance rule for sampling weights and persons, as applied to the representatives."""

    n: int = Field(description="Number of heaviest members of a cell that the rule limits.")
    p: float = Field(description="Largest share of a cell's weight that they may have together.")
    cells_capped: int = Field(description="Cells in which the weight of a member was capped.")


class RequirementsSection(Section):
    """Requirements on the release, and how cells were found that meet them."""

    limits: dict[str, float] = Field(description="Limit of each required measure.")
    cells_before: int = Field(description="Number of cells before the limits were applied.")
    cells_after: int = Field(description="Number of cells within the limits.")
    sse_ratio_before: float = Field(
        description="SSE / SST of the cells before the limits were applied."
    )
    way: str = Field(description="How the cells within the limits were found.")
    rounds: int = Field(description="Rounds of merging.")


class DependenceSection(Section):
    """Trade-off between quasi-identifiers and confidential columns."""

    weight: float = Field(description="Weight of the confidential columns (lambda), 0 to 1.")
    quasi_identifier_loss: float = Field(
        description="SSE / SST of the encoded quasi-identifiers (D_X)."
    )
    dependence_loss: float = Field(
        description="SSE / SST of the encoded confidential columns (D_Y), as in the audit."
    )
    weighted_loss: float = Field(description="The objective, (1 - weight) D_X + weight D_Y.")
    columns: dict[str, float] | None = Field(
        default=None, description="Weight of each confidential column, if they differ."
    )
    regression: str | None = Field(
        default=None,
        description="Regression that predicts the confidential columns for cells as a function.",
    )


class BlocksSection(Section):
    """Blocks of quasi-identifiers that were partitioned independently."""

    k: int = Field(description="Minimum cell size in each block.")
    columns: tuple[tuple[str, ...], ...] = Field(description="Quasi-identifiers of each block.")
    cells: tuple[int, ...] = Field(description="Number of cells of each block.")
    jointly_k_anonymous: bool = Field(
        description="Whether the release is k-anonymous over all columns combined."
    )


class ParticipationTest(Section):
    """Comparison of the number of participants with the participation assumed by the design."""

    participants: int = Field(description="Number of people who answered.")
    expected: float = Field(description="Expected number of participants.")
    p_total: float = Field(
        description="Probability of a total at least as far from the expected one, if the "
        "assumption holds."
    )
    p_cells: float = Field(
        description="Probability of cells that differ at least as much from their expected "
        "participation, if the assumption holds."
    )
    refuted: bool = Field(description="Whether either of these is below 0.001.")


class SurveySection(Section):
    """How the answers of a survey were released."""

    design_sha256: str = Field(description="Digest of the cells file.")
    below: Literal["suppress", "merge"] = Field(
        description="How cells with 1 to k - 1 answers were handled."
    )
    cells_designed: int = Field(description="Number of cells in the design.")
    cells_empty: int = Field(description="Cells without an answer.")
    cells_short: int = Field(description="Cells with 1 to k - 1 answers.")
    median_size: float = Field(description="Median number of answers in a published cell.")
    expected_failures: float = Field(description="Expected number of cells that fail.")
    late: bool = Field(default=False, description="Whether this is a block of late answers.")
    rejected: int = Field(default=0, description="Invalid answers that were left out.")
    participation: ParticipationTest | None = Field(
        default=None, description="Whether the answers fit the assumed participation."
    )


class ManifestFile(Section):
    """Entries and methods common to all manifests."""

    manifest_version: Literal[1] = Field(default=1, description="Version of the manifest format.")
    microcell: str = Field(description="Version of microcell that produced the file.")
    created: str = Field(description="Date and time of creation, in UTC.")
    k: int = Field(
        description="Guaranteed k; with blocks, k over all columns combined. It counts persons if "
        "there is a section `person`, otherwise records."
    )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a manifest file.

        Raises
        ------
        TableError
            The file cannot be read, or it is not a manifest.
        """
        return cls.parse(read_bytes(path), name=repr(str(path)))

    @classmethod
    def parse(cls, content: str | bytes | Mapping[str, Any], *, name: str = "The manifest") -> Self:
        """Validate a manifest given as JSON text or as plain data.

        Parameters
        ----------
        content
            JSON text or a mapping.
        name
            How an error message refers to the manifest.

        Raises
        ------
        TableError
            The content is not a manifest; the message names the invalid entry and never quotes it.
        """
        try:
            text = json.dumps(content) if isinstance(content, Mapping) else content
            parse_json(text, allow_nan=True)  # pydantic accepts repeated keys
            return cls.model_validate_json(text, strict=True)
        except ValidationError as error:
            entry = cls._invalid_entry(error)
        except (TypeError, ValueError, RecursionError):
            entry = None
        where = "" if entry is None else f" (invalid entry: {entry})"
        raise TableError(
            f"{name} is not a valid microcell manifest{where}. Use the file written with "
            "the release.",
            code="table.malformed",
            entry=entry,
        )

    @classmethod
    def _invalid_entry(cls, error: ValidationError) -> str | None:
        """Return the top-level entry at fault; deeper keys could come from any file."""
        places = (item["loc"] for item in error.errors(include_input=False, include_url=False))
        return next(
            (str(place[0]) for place in places if place and place[0] in cls.model_fields), None
        )

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Return the JSON Schema of manifest files."""
        schema = cls.model_json_schema()
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}

    def as_dict(self) -> dict[str, Any]:
        """Return the entries that are set, as plain data."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_json(self) -> str:
        """Return the text of the manifest file."""
        return json.dumps(self.as_dict(), indent=2, ensure_ascii=False) + "\n"

    def updated(self, **entries: Any) -> Self:
        """Return a copy with some entries replaced."""
        return self.model_copy(update=entries)


class Manifest(ManifestFile):
    """How a release was produced. Contains no value of the table.

    Examples
    --------
    >>> Manifest.json_schema()["properties"]["k"]["type"]
    'integer'
    """

    method: MethodSection | None = Field(default=None, description="The partitioning method.")
    seed: int | None = Field(default=None, description="Random seed.")
    missing: Literal["error", "drop", "impute"] | None = Field(
        default=None, description="How records with missing quasi-identifiers were handled."
    )
    columns: dict[str, ColumnSection] = Field(description="Columns of the original table.")
    input: TableSection = Field(description="The original table.")
    records: RecordsSection = Field(description="Number of records read, released and dropped.")
    cells: CellsSection = Field(description="The cells of the partition.")
    bound: BoundSection | None = Field(
        default=None,
        description="Bound on the distance of the cells from the optimum, if it can be proved "
        "within a second or two.",
    )
    information_loss: float | None = Field(
        default=None,
        description="Information loss of the published table, as the audit measures it.",
    )
    seconds: float | None = Field(default=None, description="Time spent on producing the release.")
    requirements: RequirementsSection | None = Field(
        default=None, description="Requirements, and the merging done to meet them."
    )
    suppression: SuppressionSection | None = Field(
        default=None, description="Records left out because they cost most, if any could be."
    )
    dependence: DependenceSection | None = Field(
        default=None, description="Trade-off between quasi-identifiers and confidential columns."
    )
    dominance: DominanceSection | None = Field(
        default=None, description="Dominance rule, if there are sampling weights or persons."
    )
    person: PersonSection | None = Field(
        default=None, description="The persons that k counts; without it, k counts records."
    )
    rows_are_people: bool | None = Field(
        default=None,
        description="True if the schema states that every row is about a different person.",
    )
    blocks: BlocksSection | None = Field(
        default=None, description="Blocks of quasi-identifiers, if partitioned independently."
    )
    survey: SurveySection | None = Field(
        default=None, description="How the answers were released, for a survey."
    )
    formulas_escaped: bool | None = Field(
        default=None,
        description="True if an apostrophe was put before texts that look like formulas.",
    )
    row_order: Literal["kept", "shuffled"] = Field(
        default="kept", description="Order of published rows."
    )
    order_key: str | None = Field(
        default=None,
        pattern=f"^{ORDER_KEY_PATTERN}$",
        description="Secret key of the order of shuffled rows, and of noise and swaps: 128 random "
        "bits, in hexadecimal. "
        "Whoever has it and the original can match published rows to original rows.",
    )
    output: TableSection | None = Field(
        default=None, description="The published file, once written."
    )
    files: tuple[FileSection, ...] | None = Field(
        default=None, description="Reports and cells that were written together with the release."
    )

    @property
    def suppressed_rows(self) -> tuple[int, ...]:
        """Row numbers, from 1, of the records that were left out because they cost most."""
        return () if self.suppression is None else self.suppression.rows or ()

    def without_secrets(self) -> Self:
        """Return the manifest without what links published rows to original rows."""
        suppression = self.suppression
        if suppression is not None:
            suppression = suppression.model_copy(update={"rows": None})
        return self.updated(order_key=None, suppression=suppression)

    @property
    def is_randomized(self) -> bool:
        """True if a column is masked by noise or by swapping, as the order key determines."""
        masks = ((column.noise, column.swap) for column in self.columns.values())
        return any(mask != (None, None) for mask in masks)

    @property
    def limits(self) -> Mapping[str, float]:
        """Limits that the release had to meet, by measure."""
        return {} if self.requirements is None else self.requirements.limits

    def __repr__(self) -> str:
        return short_repr(
            self,
            count(self.records.released, "record"),
            k=self.k,
            cells=self.cells.count,
            method=None if self.method is None else self.method.used,
            information_loss=_percent(self.information_loss),
        )

    __str__ = __repr__

    def _repr_html_(self) -> str:
        method = self.method
        rows = {
            "k": str(self.k),
            "Records": f"{self.records.read:,} read, {self.records.released:,} released",
            "Cells": f"{self.cells.count:,}",
            "Method": "" if method is None else f"{method.used or method.requested}",
            "Information loss": _percent(self.information_loss) or "",
            "Random seed": "" if self.seed is None else str(self.seed),
            "Created": self.created,
            "microcell": self.microcell,
        }
        return html_card(
            "Manifest of a release",
            {label: text for label, text in rows.items() if text},
            next_steps={
                "manifest.as_dict()": "all entries as plain data",
                "mc.audit(original, released, schema, manifest=manifest)": (
                    "check it against tables"
                ),
            },
        )


class ParticipationSection(Section):
    """Probability that a candidate takes part."""

    column: str | None = Field(default=None, description="Column with individual probabilities.")
    common: float | None = Field(default=None, description="Probability common to everyone.")
    mean: float = Field(description="Mean probability.")
    upper: float | None = Field(
        default=None,
        description="Mean upper end, if the design assumes an interval; the others are lower ends.",
    )
    correlation: float | None = Field(
        default=None, description="Assumed correlation between the candidates of a cell."
    )
    next_wave: float | None = Field(
        default=None, description="Participation in a second wave that the cells are also for."
    )


class CandidatesSection(Section):
    """Number of candidates."""

    read: int = Field(description="Candidates in the sampling frame.")
    designed: int = Field(description="Candidates that the cells were designed for.")


class ExpectedSection(Section):
    """Expected number of participants per cell."""

    least: float = Field(description="Smallest expected number of any cell.")
    mean: float = Field(description="Mean expected number per cell.")


class FailureSection(Section):
    """Failure probability of the cells."""

    least: float = Field(description="Smallest probability.")
    lower: float = Field(description="Lower quartile.")
    median: float = Field(description="Median.")
    upper: float = Field(description="Upper quartile.")
    largest: float = Field(description="Largest probability.")


class DesignCellsSection(Section):
    """The cells of a survey design."""

    count: int = Field(description="Number of cells.")
    smallest: int = Field(description="Candidates in the smallest cell.")
    largest: int = Field(description="Candidates in the largest cell.")
    least_size: int | None = Field(default=None, description="Minimum number of candidates.")
    expected_participants: ExpectedSection = Field(description="Expected participants per cell.")
    failure: FailureSection = Field(description="Failure probability of the cells.")
    conditional_failure: FailureSection | None = Field(
        default=None,
        description="Failure probability of the cells given that somebody takes part.",
    )


class TableFailureSection(Section):
    """Failure probabilities of the survey as a whole."""

    table_failure: float = Field(description="Probability that at least one cell fails.")
    unprotected: float = Field(description="Expected participants in cells that fail.")
    record_failure: float = Field(
        description="Mean probability that a candidate takes part and their cell fails."
    )
    participant_failure: float = Field(
        description="Mean probability that a participant's cell fails."
    )


class CertaintySection(Section):
    """Comparison with a survey in which everyone takes part."""

    information_loss: float | None = Field(
        default=None, description="Information loss if everyone took part."
    )
    ratio: float | None = Field(
        default=None,
        description="Expected information loss divided by the loss if everyone took part.",
    )
    candidates: int = Field(description="Candidates that the comparison used.")


class DesignManifest(ManifestFile):
    """How the cells of a survey were designed. Contains no value of the sampling frame."""

    failure: float = Field(description="Accepted failure probability of a cell.")
    failure_of: Literal["cell", "participant"] = Field(
        default="cell",
        description="What the accepted probability holds for: a cell, or a cell given that "
        "somebody takes part.",
    )
    participation: ParticipationSection = Field(description="Probability of taking part.")
    method: MethodSection = Field(description="The partitioning method.")
    kind: str = Field(description="Kind of cells.")
    seed: int = Field(description="Random seed.")
    missing: Literal["error", "drop", "impute"] = Field(
        description="How candidates with missing quasi-identifiers were handled."
    )
    trust: Literal["none", "local"] = Field(description="Who finds the cell of a respondent.")
    columns: tuple[str, ...] = Field(description="Quasi-identifiers.")
    frame: TableSection = Field(description="The sampling frame.")
    candidates: CandidatesSection = Field(description="Number of candidates.")
    cells: DesignCellsSection = Field(description="The cells.")
    table: TableFailureSection = Field(description="Failure probabilities of the whole survey.")
    expected_information_loss: float = Field(
        description="Expected SSE / SST of the participants' encoded records."
    )
    certainty: CertaintySection = Field(description="Comparison with certain participation.")
    cells_sha256: str = Field(description="Digest of the cells file.")
    seconds: float = Field(description="Time spent on the design.")

    def __repr__(self) -> str:
        return short_repr(
            self,
            count(self.candidates.designed, "candidate"),
            k=self.k,
            cells=self.cells.count,
            kind=self.kind,
        )

    __str__ = __repr__


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.3g} %"
