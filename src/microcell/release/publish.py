"""Releases: publish table, manifest, report, certificate and cells as one atomic set.

Sessions and survey collections publish through the same functions. A typical caller checks the
outputs before any expensive work, composes the reports, and writes everything at once::

    check_outputs(path, companions=(report, certificate), sources=inputs)
    companions = compose_reports(audit, report=report, certificate=certificate, title=..., ...)
    manifest = publish_table(table, path, manifest, prove=proof, companions=companions)

``publish_table`` writes the table, reads it back, proves the guarantee on that file, adds the
file's digest to the manifest and only then lets all files appear under their names.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from microcell import auditing, progress, tables
from microcell._atomic import AtomicFiles, check_target
from microcell._display import count, html_card, percent, short_repr
from microcell._files import TEXT_SUFFIXES
from microcell.cells import Cells
from microcell.errors import OptionError, TableError
from microcell.model import Audit, Finding, Integers, Partition, Schema, Table
from microcell.model.audit import MaskEffect
from microcell.model.findings import check_strictly
from microcell.model.manifest import Manifest
from microcell.release.manifest import (
    describe_file,
    describe_table,
    manifest_path,
    other_releases,
)
from microcell.release.prepare import released_rows
from microcell.release.prove import check_written, prove

__all__ = [
    "Release",
    "check_outputs",
    "check_report_names",
    "compose_reports",
    "publish_table",
    "read_written",
    "write_reports",
]

Content = str | bytes

# Reports need template and figure libraries, which anonymizing a table must not load.
_load = import_module


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """A k-anonymous table ready to be published, with its partition and manifest.

    Attributes
    ----------
    table
        The table to publish, in the type of the source, with rows in the original order.
    partition
        The cells of the records.
    manifest
        How the release was produced.
    schema
        The resolved schema.
    published
        The same table as a :class:`~microcell.model.Table`.
    row_order
        Order in which rows are written to a file. Keep it secret: it links published rows to
        original rows.
    original
        The table that was released, for the audit in the report. It is not pickled.
    class_sizes
        Number of people in each equivalence class of the published table: of distinct persons if
        the schema names a person column, otherwise of records.
    persons
        Person of each row (a number), if the schema names a person column. Keep it secret.
    mask_effects
        What masking did to confidential columns.
    sources
        Files that the original was read from; publishing never overwrites them.
    cells
        Cells that can assign further records, if requested.

    Examples
    --------
    >>> import microcell as mc
    >>> release = mc.anonymize(mc.sample_survey(100), mc.sample_schema(), k=5, method="mdav")
    >>> release.manifest.k, int(release.class_sizes.min()) >= 5
    (5, True)
    """

    table: Any
    partition: Partition
    manifest: Manifest
    schema: Schema
    published: Table
    row_order: Integers
    original: Table | None = None
    class_sizes: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    persons: Integers | None = None
    mask_effects: tuple[MaskEffect, ...] = ()
    sources: tuple[Path, ...] = ()
    cells: Cells | None = None

    @property
    def guarantee(self) -> str:
        """The guarantee in one sentence."""
        sentence: str = _load("microcell.report").guarantee(
            Audit(
                keys=(*(column.name for column in self.schema.quasi), *self.schema.strata),
                rows_original=self.manifest.records.read,
                rows_released=self.published.rows,
                measures={},
                class_sizes=self.class_sizes,
                person=tuple(self.schema.person),
            )
        )
        return sentence

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Problems of the release and what to do about them, the most severe first.

        Empty for a release that was unpickled, because it no longer has its original table.
        :meth:`examine` also looks at where the release is to be published.
        """
        return self.examine()

    def examine(
        self, path: str | Path | None = None, *, escape_formulas: bool = False
    ) -> tuple[Finding, ...]:
        """Return the findings of the release if it were published at ``path``."""
        if self.original is None:
            return ()
        return auditing.examine(
            self.original, self.published, self.schema, **self._context(path, escape_formulas)
        )

    def _context(self, path: str | Path | None, escape_formulas: bool) -> dict[str, Any]:
        """Return the facts besides the tables that the rules of findings use."""
        assert self.original is not None
        missing = self.manifest.missing or "error"
        is_text = path is None or Path(path).suffix.lower() in TEXT_SUFFIXES
        return {
            "pairs": released_rows(
                self.original, self.schema, missing, self.manifest.suppressed_rows
            ),
            "k": self._requested_k,
            "earlier": () if path is None else other_releases(self.manifest, Path(path)),
            "formulas_escaped": escape_formulas or not is_text,
        }

    def audit(self, path: str | Path | None = None, *, escape_formulas: bool = False) -> Audit:
        """Compare the release with the original table it was produced from.

        ``path`` is the file that the release will be written to; findings depend on it.

        Raises
        ------
        OptionError
            The release was unpickled, so it no longer has the original table. Use
            :func:`microcell.audit` with both tables.
        """
        if self.original is None:
            raise OptionError(
                "This release no longer has its original table. Use mc.audit(original, "
                "released, schema) with both tables.",
                code="option.missing",
                option="original",
            )
        result = auditing.audit(
            self.original, self.published, self.schema, **self._context(path, escape_formulas)
        )
        return replace(result, masks=self.mask_effects)

    def publish(
        self,
        path: str | Path,
        *,
        report: str | Path | None = None,
        certificate: str | Path | None = None,
        cells: str | Path | None = None,
        audience: str = "internal",
        keep_order: bool = False,
        escape_formulas: bool = False,
        overwrite: bool = True,
        strict: bool = False,
    ) -> "Release":
        """Write the table and its manifest, with reports if requested, as one atomic set.

        The file is read back and the guarantee is proved on it before any file takes its name:
        either all files appear, complete, or none does.

        Parameters
        ----------
        path
            Output file; its suffix determines the format. The manifest is written next to it.
        report
            HTML report to write.
        certificate
            One-page PDF certificate to write, which contains only what the public may know.
        cells
            JSON file for the cells that assign further records; requires a release produced with
            ``cells=True``.
        audience
            Readers of the report: "internal", or "public" to leave out details of the original.
        keep_order
            Keep the original row order. By default rows are shuffled, so that their positions
            reveal nothing.
        escape_formulas
            Put an apostrophe before texts that a spreadsheet program would run as formulas (those
            that begin with =, +, -, @, a tab or a carriage return and are not numbers). For .csv,
            .tsv and .txt files. The manifest states it, and :func:`microcell.audit` undoes it.
        overwrite
            Replace existing files. If False, existing files are an error.
        strict
            Publish nothing if the findings contain a danger or a warning.

        Returns
        -------
        Release
            This release, with a manifest that describes the written file.

        Raises
        ------
        TableError
            An output cannot be written, already exists, or would replace an input.
        GuaranteeError
            The file as written does not have the guarantee, or with ``strict`` something was found;
            nothing is published.
        """
        target = Path(path)
        check_outputs(
            target,
            report=report,
            certificate=certificate,
            companions=(cells,),
            sources=self.sources,
            overwrite=overwrite,
        )
        if certificate is not None:
            _load("microcell.report").check_certificate()
        tables.check_writable(self.published, target.suffix)
        if escape_formulas:
            tables.check_escaping(self.published, target)
        if strict:
            check_strictly(self.examine(target, escape_formulas=escape_formulas))
        manifest = self.manifest.updated(row_order="shuffled")
        if keep_order:
            key = self.manifest.order_key if self.manifest.is_randomized else None
            manifest = self.manifest.updated(row_order="kept", order_key=key)
        companions: dict[Path, Content] = {}
        if report is not None or certificate is not None:
            companions |= compose_reports(
                self.audit(target, escape_formulas=escape_formulas),
                report=report,
                certificate=certificate,
                manifest=manifest,
                title=f"Audit of {target.name}",
                require={"k": self._requested_k, **manifest.limits},
                audience=audience,
                picture=None
                if report is None
                else _load("microcell.release.picture").draw_release(self),
            )
        if cells is not None:
            companions[Path(cells)] = _cells_text(self.cells)
        table = self.published if keep_order else tables.take(self.published, self.row_order)
        persons = self.persons
        if persons is not None and not keep_order:
            persons = persons[self.row_order]

        def proof(written: Table) -> None:
            self._prove_file(
                tables.unescape_formulas(written) if escape_formulas else written, persons
            )

        if escape_formulas:
            table = tables.escape_formulas(table)
            manifest = manifest.updated(formulas_escaped=True)
        manifest = publish_table(
            table,
            target,
            manifest,
            prove=proof,
            companions=companions,
            private=private_reports(report, audience),
        )
        return replace(self, manifest=manifest)

    @property
    def _requested_k(self) -> int:
        blocks = self.manifest.blocks
        return self.manifest.k if blocks is None else blocks.k

    def _prove_file(self, written: Table, persons: Integers | None) -> None:
        prove(
            written,
            self.schema,
            k=self.partition.k,
            n_rows=self.published.rows,
            limits=self.manifest.limits,
            blocks=self.manifest.blocks,
            persons=persons,
        )

    def __getstate__(self) -> dict[str, Any]:
        # A pickled release must not carry the original records.
        state = {name: value for name, value in self.__dict__.items() if name != "findings"}
        return {**state, "original": None}

    def __repr__(self) -> str:
        manifest = self.manifest
        return short_repr(
            self,
            count(self.published.rows, "record"),
            k=manifest.k,
            cells=len(self.partition),
            information_loss=percent(manifest.information_loss or 0),
            method=self.partition.method,
        )

    def _repr_html_(self) -> str:
        manifest = self.manifest
        records = manifest.records
        notes = [str(item) for item in self.findings]
        if records.dropped:
            notes.append(f"{count(records.dropped, 'record')} with missing values dropped.")
        if manifest.blocks is not None and not manifest.blocks.jointly_k_anonymous:
            notes.append("The table is k-anonymous in each block of columns, not as a whole.")
        return html_card(
            self.guarantee,
            {
                "k": f"{manifest.k:,}",
                "Records": f"{records.read:,} read, {records.released:,} released",
                "Cells": f"{len(self.partition):,}",
                "Information loss": percent(manifest.information_loss or 0),
                "Method": self.partition.method,
            },
            notes=notes,
            next_steps={
                "release.publish('out.csv', report='out.html')": "write table, manifest and report",
                "release.audit()": "measure risk and utility",
                "release.table": "the table to publish",
            },
        )


def _cells_text(cells: Cells | None) -> str:
    if cells is None:
        raise OptionError(
            "This release has no cells to write. Pass cells=True to anonymize.",
            code="option.conflict",
            option="cells",
        )
    if cells.holds_records:
        raise OptionError(
            f"{cells.kind} cells contain original records, so they cannot be published. Use power "
            "or ball cells, or cells.save(path, confidential=True) for your own use.",
            code="option.unsupported",
            option="cells",
        )
    return cells.to_json()


def check_outputs(
    path: str | Path,
    *,
    report: str | Path | None = None,
    certificate: str | Path | None = None,
    companions: Iterable[str | Path | None] = (),
    sources: Iterable[Path] = (),
    overwrite: bool = True,
) -> None:
    """Check, before any work, that a table, its manifest and companion files can be written.

    Raises
    ------
    OptionError
        The report is not an HTML file, or the certificate not a PDF file.
    TableError
        A file cannot be written, two outputs have the same path, an output would replace a source,
        or it exists and ``overwrite`` is False.
    """
    check_report_names(report, certificate)
    target = Path(path)
    inputs = list(sources)
    check_target(target, sources=inputs)
    tables.check_suffix(target.suffix)
    extra = [Path(item) for item in (report, certificate, *companions) if item is not None]
    check_distinct([target, manifest_path(target), *extra], sources=inputs, overwrite=overwrite)


def check_report_names(report: str | Path | None, certificate: str | Path | None) -> None:
    """Raise OptionError unless the report is an .html file and the certificate a .pdf file."""
    named = {"report": (report, (".html", ".htm")), "certificate": (certificate, (".pdf",))}
    for option, (path, suffixes) in named.items():
        if path is not None and Path(path).suffix.lower() not in suffixes:
            raise OptionError(
                f"The {option} must be a {suffixes[0]} file, not {Path(path).name!r}. Choose "
                "another name.",
                code="option.unsupported",
                option=option,
            )


def check_distinct(
    outputs: Iterable[Path], *, sources: Iterable[Path] = (), overwrite: bool = True
) -> None:
    """Check that output files are writable, distinct from each other and not among the sources."""
    taken = list(sources)
    seen: set[Path] = set()
    for path in outputs:
        check_target(path, sources=taken)
        if path.resolve() in seen:
            raise TableError(
                f"{path} is the name of two outputs. Choose a different file for each.",
                code="table.exists",
                path=str(path),
            )
        if path.exists() and not overwrite:
            raise TableError(
                f"{path} already exists. Choose another name, or overwrite it (--force, "
                "overwrite=True).",
                code="table.exists",
                path=str(path),
            )
        seen.add(path.resolve())


def compose_reports(
    audit: Audit,
    *,
    report: str | Path | None = None,
    certificate: str | Path | None = None,
    manifest: Manifest | None = None,
    title: str,
    require: Mapping[str, float] | None = None,
    audience: str = "internal",
    picture: bytes | None = None,
) -> dict[Path, Content]:
    """Compose the requested reports on an audit; return their content by path.

    Raises
    ------
    RequirementError
        A certificate was requested for a release that does not meet a requirement.
    """
    if certificate is not None:
        audit.require(**(require or {}))
    from_manifest = None if manifest is None else manifest.as_dict()
    reports = _load("microcell.report")
    contents: dict[Path, Content] = {}
    if report is not None:
        contents[Path(report)] = reports.render(
            audit,
            "html",
            manifest=from_manifest,
            title=title,
            picture=picture,
            require=require,
            audience=audience,
        )
    if certificate is not None:
        contents[Path(certificate)] = reports.certify(
            audit, manifest=from_manifest, title=title, require=require
        )
    return contents


def write_reports(
    audit: Audit,
    *,
    report: str | Path | None = None,
    certificate: str | Path | None = None,
    **options: Any,
) -> None:
    """Write the requested reports on an audit, all or none.

    ``options`` are those of :func:`compose_reports`.
    """
    contents = compose_reports(audit, report=report, certificate=certificate, **options)
    private = private_reports(report, options.get("audience", "internal"))
    with AtomicFiles() as atomic:
        for path, content in contents.items():
            _write(atomic.path(path, private=path in private), content)


def private_reports(report: str | Path | None, audience: str) -> set[Path]:
    """Return the report if only its owner may read it: an internal one contains original values."""
    return set() if report is None or audience == "public" else {Path(report)}


def publish_table(
    table: Table,
    path: str | Path,
    manifest: Manifest,
    *,
    prove: Callable[[Table], object],
    companions: Mapping[Path, Content] | None = None,
    private: Collection[Path] = (),
) -> Manifest:
    """Write a table, its manifest and companion files as one atomic set.

    The manifest contains the digests of all other files and is renamed last, so a process that is
    killed leaves either a complete set or one that :func:`find_manifest` rejects. Only columns of
    kind ordinal keep an order of categories.

    Parameters
    ----------
    table
        The table, with rows in the order of the file.
    path
        Output file; check it with :func:`check_outputs` first.
    manifest
        The manifest without its ``output`` entry.
    prove
        Called with the file read back; raises if the guarantee does not hold.
    companions
        Further files to write in the same step, by path.
    private
        Those of them that only their owner may read, like the manifest.

    Returns
    -------
    Manifest
        The manifest as written, with its ``output`` and ``files`` entries.
    """
    target = Path(path)
    ordinal = {name for name, column in manifest.columns.items() if column.kind == "ordinal"}
    table = tables.without_category_order(table, ordinal)
    with AtomicFiles() as atomic:
        table_file = atomic.path(target)
        files = []
        for companion, content in (companions or {}).items():
            temporary = atomic.path(companion, private=companion in private)
            _write(temporary, content)
            files.append(describe_file(companion, temporary, target.parent))
        manifest_file = atomic.path(manifest_path(target), private=True)
        progress.report("writing")
        tables.write(table, table_file)
        progress.report("checking the file")
        written = read_written(table, table_file)
        prove(written)
        manifest = manifest.updated(output=describe_table(written), files=tuple(files) or None)
        manifest_file.write_text(manifest.to_json(), encoding="utf-8")
    return manifest


def read_written(table: Table, path: Path) -> Table:
    """Read a file that was just written, and check that it contains every value of the table.

    Raises
    ------
    TableError
        The file cannot be read, or contains other values.
    """
    suffix = path.suffix.lower()
    try:
        written = tables.read_back(table, path)
    except TableError:
        raise TableError(
            f"A {suffix} file of this table cannot be read back. Write .parquet instead. Nothing "
            "was released.",
            code="table.format_limit",
            suffix=suffix,
        ) from None
    check_written(table, written, suffix)
    return written


def _write(path: Path, content: Content) -> None:
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
