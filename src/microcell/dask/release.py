"""A data set of any size made k-anonymous on an engine, and the account of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

from microcell import auditing, tables
from microcell._display import record_repr
from microcell.dask.audit import audit_counts, describe_files
from microcell.dask.cluster import DaskEngine, Engine, check_installed, is_dask, read_frame
from microcell.dask.first_pass import unite_distortion
from microcell.dask.folders import Folders, check_output
from microcell.dask.sources import check_apart, find_files
from microcell.dask.stages import (
    MACROCELL,
    SEAMS,
    Request,
    check_workers,
    count_classes,
    make_cells,
    make_request,
    open_dataset,
    survey_dataset,
)
from microcell.dask.tasks import Published, unite_losses
from microcell.model import Audit, Schema
from microcell.model.manifest import CellsSection, DependenceSection, Manifest, MethodSection
from microcell.release import manifest as manifests

__all__ = ["DatasetRelease", "anonymize_dataset", "release_dataset"]


@dataclass(frozen=True, eq=False)
class DatasetRelease:
    """A k-anonymous data set in its folder, and the account of its making; ``k`` is what was counted in its files.

    ``sizes`` tells how many classes of each size were counted; ``suffix``, what the files are.
    """

    path: Path
    k: int
    manifest: Manifest
    schema: Schema
    sizes: Mapping[int, int] = field(default_factory=dict)
    suffix: str = ".parquet"

    __repr__ = record_repr

    @property
    def table(self) -> Any:
        """The release as a lazy Dask dataframe, a partition for each of its files."""
        return read_frame(self.path, self.suffix)

    @cached_property
    def audit(self) -> Audit:
        """What was counted in the files of the release: k, classes, risks, records; and the distortion of all records.

        A number for each class is held in memory.
        """
        columns = {name: [] for name in self.manifest.columns}  # type: ignore[var-annotated]
        published = {
            name: [] for name in columns if name in (*self.schema.keys, *self.schema.unchanged)
        }  # type: ignore[var-annotated]
        blank = auditing.audit(
            tables.read(columns), tables.read(published), self.schema, brief=True
        )
        return audit_counts(
            blank, self.manifest.records.read, self.sizes, self.manifest.information_loss
        )


def anonymize_dataset(
    source: Any,
    schema: Schema | str | Path,
    *,
    k: int,
    output: str | Path | None = None,
    method: str = "auto",
    seed: int = 0,
    missing: str = "error",
    dependence: float = 0.0,
    reading: Mapping[str, Any] | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    memory: str | None = None,
    macrocell: int = MACROCELL,
    seams: int = SEAMS,
    scratch: str | Path | None = None,
    replace: bool = False,
    **options: Any,
) -> DatasetRelease:
    """A k-anonymous release of a data set that need not fit in memory, written to a folder, its k counted there.

    Parameters
    ----------
    source
        A folder of Parquet files, a pattern (``"in/*.parquet"``), a list of files, the same of .csv, .tsv or .txt
        files, or a Dask dataframe. Of Parquet, some row groups are one task; of plain text, a file is.
    schema, k, seed, missing, dependence
        As :func:`microcell.anonymize` takes them.
    output
        The folder of the release: files of the kind that came in, ``_manifest.json`` and ``_SUCCESS``. It appears when
        all of it is there and k was counted, or not at all. If left out, a folder that is gone when the program ends:
        write ``table`` somewhere before.
    reading
        How plain text is written, as :func:`microcell.read` takes it (delimiter, encoding, quote, decimal, na).
    method, options
        How a macrocell is divided into cells; "auto" of effort "fast" if left out. Macrocells are then refined.
    scheduler
        The address of a Dask scheduler. If left out, the client that the program has connected already, if it has
        one; else, or if one of them is given, so many ``workers`` (2) are started on this machine, each with so much
        ``memory`` ("2GB"). A program that is a script must then be guarded by ``if __name__ == "__main__"``.
    macrocell
        Records of a macrocell, one task: 100 or more; fewer than 4 k are raised to it. More of them cost memory and
        lower the distortion.
    seams
        Rounds in which other macrocells are made of whole cells, and refined across the borders of those before.
        Each costs a shuffle of the data set on disk.
    scratch
        The folder for what is under way, which all workers must reach: beside the output if left out. It holds
        original values, takes about the size of the data set twice, and what was written there is removed.
    replace
        Replace an earlier release at ``output``.

    Returns
    -------
    DatasetRelease
        Where the release is, its ``table`` as a lazy Dask dataframe, its manifest, and what was counted. It is the
        same for the same seed, files and macrocells, whatever the number of workers and their order.

    Notes
    -----
    Time O(n) macrocells of their own time; no machine holds more than a few macrocells and the sample. Numbers are
    rounded to the precision that a column has within a macrocell.
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
        missing=missing,
        dependence=dependence,
        reading=reading,
        macrocell=macrocell,
        seams=seams,
        replace=replace,
    )
    check_apart(source, request.output)
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
    """The stages in a row, on that engine and in those folders."""
    started = perf_counter()
    check_output(request.output, request.replace, files)
    digests = engine.run("taking digests", tables.file_digest, files)
    opened = open_dataset(engine, files, request, folders)
    job, found = survey_dataset(engine, opened, request)
    published = make_cells(engine, job, opened, request)
    proof = count_classes(engine, job, published, found.rows)
    schema, columns = job.schema, opened.columns
    manifest = manifests.build_manifest(
        schema,
        columns.names,
        k=request.k,
        method=_describe_method(request, published),
        seed=request.seed,
        missing=request.missing,
        input=describe_files(found.read, len(columns.names), digests),
        records=manifests.describe_records(
            found.read, found.rows, request.missing, sum(item.gaps for item in published)
        ),
        cells=_describe_cells(published, sum(proof.sizes.values())),
        information_loss=unite_losses(schema.quasi, [item.losses for item in published]),
        seconds=round(perf_counter() - started, 3),
        dependence=_describe_dependence(request, published),
        row_order="shuffled",
        output=describe_files(found.rows, proof.columns, proof.digests),
    )
    folders.commit(tuple(item.name for item in published), manifest.to_json(), request.replace)
    return DatasetRelease(
        request.output, min(proof.sizes), manifest, schema, proof.sizes, job.suffix
    )


def _describe_method(request: Request, published: Sequence[Published]) -> MethodSection:
    reason = f"on an engine, in {len(published)} macrocells of about {request.macrocell:,} records at most"
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


def _describe_cells(published: Sequence[Published], classes: int) -> CellsSection:
    sizes: Counter[int] = sum((item.sizes for item in published), Counter())
    return CellsSection(
        count=sum(sizes.values()),
        smallest=min(sizes),
        largest=max(sizes),
        sse_ratio=unite_distortion([item.sums for item in published]),
        sizes={str(size): sizes[size] for size in sorted(sizes)},
        classes=classes,
        macrocells=len(published),
    )


def _describe_dependence(
    request: Request, published: Sequence[Published]
) -> DependenceSection | None:
    confidential = [item.confidential for item in published if item.confidential is not None]
    if not confidential:
        return None
    lost, unpredicted = (
        unite_distortion([item.sums for item in published]),
        unite_distortion(confidential),
    )
    return manifests.describe_dependence(float(request.dependence), lost, unpredicted)
