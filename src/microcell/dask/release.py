"""Anonymize a data set of any size on an engine."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

from microcell import auditing, tables
from microcell._display import count, html_card, short_repr
from microcell.dask import is_dask
from microcell.dask.audit import audit_counts, describe_files, expand
from microcell.dask.cluster import DaskEngine, Engine, check_installed, read_frame
from microcell.dask.first_pass import combined_distortion
from microcell.dask.folders import Folders, check_output
from microcell.dask.limits import Keeping, main_way
from microcell.dask.macrocells import Job
from microcell.dask.sources import check_output_location, find_files
from microcell.dask.stages import (
    MACROCELL,
    SEAMS,
    Request,
    build_cells,
    check_workers,
    count_classes,
    examine_release,
    make_request,
    open_dataset,
    summarize_dataset,
)
from microcell.dask.tasks import PublishedFile, combine_losses
from microcell.model import Audit, Finding, Schema
from microcell.model.findings import check_strictly
from microcell.model.manifest import (
    CellsSection,
    DependenceSection,
    Manifest,
    MethodSection,
    PersonSection,
    RequirementsSection,
)
from microcell.release import manifest as manifests
from microcell.release.enforce import AS_THEY_WERE

__all__ = ["DatasetRelease", "anonymize_dataset", "release_dataset"]


@dataclass(frozen=True, eq=False, repr=False)
class DatasetRelease:
    """A k-anonymous data set in a directory.

    Attributes
    ----------
    path
        Directory of the release.
    k
        Number of people in the smallest class, counted in the files: of distinct persons if the
        schema names a person column, otherwise of records.
    manifest
        Description of how the release was produced.
    schema
        Role of each column.
    classes
        Number of classes by numbers of records and of people.
    suffix
        Suffix of the files.
    findings
        What is wrong with the release and what to do about it, the most severe first.
    """

    path: Path
    k: int
    manifest: Manifest
    schema: Schema
    classes: Mapping[tuple[int, int], int] = field(default_factory=dict)
    suffix: str = ".parquet"
    findings: tuple[Finding, ...] = ()

    @property
    def table(self) -> Any:
        """The release as a lazy Dask dataframe with one partition per file."""
        return read_frame(self.path, self.suffix)

    @cached_property
    def audit(self) -> Audit:
        """Audit from the counts of the release: k, classes, risks, records and information loss.

        Holds one number per class in memory.
        """
        columns: dict[str, list[Any]] = {name: [] for name in self.manifest.columns}
        names = {*self.schema.keys, *self.schema.unchanged}
        published: dict[str, list[Any]] = {name: [] for name in columns if name in names}
        blank = auditing.audit(
            tables.read(columns), tables.read(published), self.schema, brief=True
        )
        records, people = expand(self.classes)
        audit = audit_counts(
            blank,
            self.manifest.records.read,
            records,
            self.manifest.information_loss,
            people=people if self.schema.person else None,
        )
        return replace_fields(audit, findings=self.findings)

    def __repr__(self) -> str:
        return short_repr(
            self, count(self.manifest.records.released, "record"), k=self.k, path=self.path
        )

    def _repr_html_(self) -> str:
        manifest = self.manifest
        records = manifest.records
        return html_card(
            f"{self.k}-anonymous data set",
            {
                "k": f"{self.k:,}",
                "Records": f"{records.read:,} read, {records.released:,} released",
                "Cells": f"{manifest.cells.count:,}",
                "Information loss": f"{100 * (manifest.information_loss or 0):.3g} %",
                "Directory": str(self.path),
            },
            notes=[str(item) for item in self.findings],
            next_steps={
                "release.table": "the data set as a lazy Dask dataframe",
                "release.audit": "risks from the counted class sizes",
            },
        )


def anonymize_dataset(
    source: Any,
    schema: Schema | str | Path,
    *,
    k: int,
    output: str | Path | None = None,
    method: str = "auto",
    seed: int = 0,
    order_key: str | Path | None = None,
    missing: str = "error",
    dependence: float = 0.0,
    require: Mapping[str, float] | None = None,
    read_options: Mapping[str, Any] | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    memory: str | None = None,
    macrocell: int = MACROCELL,
    seams: int = SEAMS,
    scratch: str | Path | None = None,
    replace: bool = False,
    strict: bool = False,
    **options: Any,
) -> DatasetRelease:
    """Make a data set k-anonymous, even one larger than memory, and write it to a directory.

    Parameters
    ----------
    source
        A directory of Parquet files, a pattern (``"in/*.parquet"``), a list of files, the same
        with .csv, .tsv or .txt files, or a Dask dataframe. A task reads some row groups of a
        Parquet file, or a whole text file.
    schema, k, seed, order_key, missing, dependence
        As for :func:`microcell.anonymize`.
    require
        Limits on cells by measure, as for :func:`microcell.anonymize`: t-closeness and similar
        measures compare with the distribution of the whole data set. Measures that need all
        records at once, such as ``linkage``, are not supported.
    output
        Directory of the release: files in the format of the source and ``_SUCCESS``. It appears
        only when it is complete and k has been verified. The manifest is written next to it
        (``NAME.manifest.json``), not into it, because it is not for publication. By default a
        directory that is removed when the program ends; write ``table`` elsewhere before that.
    read_options
        Format of text files, as for :func:`microcell.read` (delimiter, encoding, quote, decimal,
        na).
    method, options
        Method that partitions a macrocell; by default "auto" with effort "fast". Macrocells are
        refined afterwards.
    scheduler
        Address of a Dask scheduler. By default the client that the program has connected already,
        or else a local cluster.
    workers, memory
        Number of local workers (2) and memory of each ("2GB"). Giving one of them starts a local
        cluster; a script must then be guarded by ``if __name__ == "__main__"``.
    macrocell
        Number of records per macrocell, which is one task: at least 100, and at least 4 k. Larger
        macrocells need more memory and lower the information loss.
    seams
        Rounds of refinement across the borders of macrocells. Each shuffles the data set on disk.
    scratch
        Directory for temporary files (they contain original data), shared by all workers. By
        default next to the output. Needs about twice the size of the data set.
    replace
        Replace an existing release at ``output``.
    strict
        Publish nothing if the findings contain a danger or a warning.

    Returns
    -------
    DatasetRelease
        The result depends on seed, files and macrocells, but not on the number of workers; the
        order of the rows depends on ``order_key``.

    Notes
    -----
    Takes linear time in the number of macrocells; no machine holds more than a few macrocells and
    the sample. Numbers are rounded to the precision of their column within a macrocell.
    """
    check_installed()
    check_workers(scheduler, workers, memory)
    files = None if is_dask(source) else find_files(source)
    request = make_request(
        schema,
        output,
        scratch,
        options,
        k=k,
        method=method,
        seed=seed,
        order_key=order_key,
        missing=missing,
        dependence=dependence,
        require=require,
        read_options=read_options,
        macrocell=macrocell,
        seams=seams,
        replace=replace,
        strict=strict,
    )
    check_output_location(source, request.output)
    with (
        Folders(request.output, request.scratch) as folders,
        DaskEngine(scheduler, workers, memory, folders.work) as engine,
    ):
        if files is None:
            engine.write_frame(source, folders.work / "frame")
            files = find_files(folders.work / "frame")
        return release_dataset(engine, files, request, folders)


def release_dataset(
    engine: Engine, files: Sequence[Path], request: Request, folders: Folders
) -> DatasetRelease:
    """Run all stages of a release on an engine."""
    started = perf_counter()
    check_output(request.output, request.replace, files)
    digests = engine.run("computing digests", tables.file_digest, files)
    dataset = open_dataset(engine, files, request, folders)
    job, summary = summarize_dataset(engine, dataset, request)
    published = build_cells(engine, job, dataset, request)
    proof = count_classes(engine, job, published, summary.rows)
    names = dataset.columns.names
    manifest = manifests.build_manifest(
        job.schema,
        names,
        k=request.k,
        method=_describe_method(request, published),
        seed=request.seed,
        missing=request.missing,
        input=describe_files(summary.read, len(names), digests),
        records=manifests.describe_records(
            summary.read,
            summary.rows,
            request.missing,
            sum(item.n_missing for item in published),
        ),
        cells=_describe_cells(published, sum(proof.classes.values())),
        information_loss=combine_losses(job.schema.quasi, [item.losses for item in published]),
        seconds=round(perf_counter() - started, 3),
        dependence=_describe_dependence(request, published),
        requirements=_describe_requirements(job, published),
        dominance=manifests.describe_dominance(
            job.schema, sum(item.n_capped for item in published)
        ),
        person=_describe_persons(job.schema, proof.rows_per_person),
        rows_are_people=job.schema.rows_are_people or None,
        row_order="shuffled",
        order_key=request.order_key,
        output=describe_files(summary.rows, proof.columns, proof.digests),
    )
    assert manifest.output is not None
    earlier = manifests.other_releases(manifest, request.output)
    findings = examine_release(engine, job, dataset, published, proof, earlier)
    check_strictly(findings if request.strict else ())
    folders.commit(
        tuple(item.name for item in published),
        manifest.to_json(),
        request.replace,
        digest=manifest.output.sha256,
    )
    smallest = min(people for _, people in proof.classes)
    return DatasetRelease(
        request.output, smallest, manifest, job.schema, proof.classes, job.suffix, findings
    )


def _describe_method(request: Request, published: Sequence[PublishedFile]) -> MethodSection:
    macrocells = count(len(published), "macrocell")
    reason = f"on an engine, in {macrocells} of at most about {request.macrocell:,} records"
    return MethodSection(
        requested=request.method,
        used=request.method,
        reason=reason,
        options={
            **(request.options or {}),
            "macrocell": request.macrocell,
            "seams": request.seams,
        },
    )


def _describe_cells(published: Sequence[PublishedFile], classes: int) -> CellsSection:
    sizes: Counter[int] = sum((item.sizes for item in published), Counter())
    return CellsSection(
        count=sum(sizes.values()),
        smallest=min(sizes),
        largest=max(sizes),
        sse_ratio=combined_distortion([item.sums for item in published]),
        sizes={str(size): sizes[size] for size in sorted(sizes)},
        classes=classes,
        macrocells=len(published),
    )


def _describe_requirements(
    job: Job, published: Sequence[PublishedFile]
) -> RequirementsSection | None:
    if not job.limits:
        return None
    keeping = Keeping.load_all(sorted(job.work.glob("limits-*.json")))
    after = sum(sum(item.sizes.values()) for item in published)
    sums = [item.sums for item in published]
    before = combined_distortion(sums, [part.sse_before for part in keeping] or None)
    return RequirementsSection(
        limits=dict(job.limits),
        cells_before=sum(part.cells_before for part in keeping) or after,
        cells_after=after,
        sse_ratio_before=before,
        way=main_way(keeping) if keeping else AS_THEY_WERE,
        rounds=max((part.rounds for part in keeping), default=0),
    )


def _describe_persons(schema: Schema, rows_per_person: Counter[int]) -> PersonSection | None:
    if not schema.person:
        return None
    return PersonSection(
        columns=tuple(schema.person),
        cells=schema.person_cells,
        count=sum(rows_per_person.values()),
        most_rows=max(rows_per_person),
    )


def _describe_dependence(
    request: Request, published: Sequence[PublishedFile]
) -> DependenceSection | None:
    confidential = [item.confidential for item in published if item.confidential is not None]
    if not confidential:
        return None
    weight = float(request.dependence)
    quasi = combined_distortion([item.sums for item in published])
    loss = combined_distortion(confidential)
    return manifests.describe_dependence(weight, quasi, loss, (1 - weight) * quasi + weight * loss)
