"""A data set of any size made k-anonymous on an engine, and the account of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from math import fsum
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from microcell import __version__, manifests, tables
from microcell.engines._clusters import DaskEngine, Engine, is_dask
from microcell.engines._folders import Folders, check_output
from microcell.engines._losses import unite_losses
from microcell.engines._requests import MACROCELL, SEAMS, Request, check_workers, make_request
from microcell.engines._sources import find_files
from microcell.engines._stages import count_classes, make_cells, open_dataset, survey_dataset
from microcell.engines._steps import Published
from microcell.model import Manifest, Schema

__all__ = ["DatasetRelease", "anonymize_dataset", "release_dataset"]


@dataclass(frozen=True, eq=False)
class DatasetRelease:
    """A k-anonymous data set in its folder, and the account of its making; ``k`` is what was counted in its files."""

    path: Path
    k: int
    manifest: Manifest
    schema: Schema


def anonymize_dataset(
    source: Any,
    schema: Schema | str | Path,
    *,
    k: int,
    output: str | Path,
    method: str = "auto",
    seed: int = 0,
    missing: str = "error",
    scheduler: str | None = None,
    workers: int = 2,
    memory: str = "2GB",
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
    schema, k, seed, missing
        As :func:`microcell.anonymize` takes them.
    output
        The folder of the release: files of the kind that came in, ``_manifest.json`` and ``_SUCCESS``. It appears when
        all of it is there and k was counted, or not at all.
    method, options
        How a macrocell is divided into cells; "auto" of effort "fast" if left out. Macrocells are then refined.
    scheduler
        The address of a Dask scheduler. If left out, so many ``workers`` are started on this machine, each with so
        much ``memory``; a program that is a script must then be guarded by ``if __name__ == "__main__"``.
    macrocell
        Records of a macrocell, one task: 1,000 or more. More of them cost memory and lower the distortion.
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
        The same for the same seed, files and macrocells, whatever the number of workers and their order.

    Notes
    -----
    Time O(n) macrocells of their own time; no machine holds more than a few macrocells and the sample. Numbers are
    rounded to the precision that a column has within a macrocell.
    """
    check_workers(scheduler, workers)
    request = make_request(
        schema,
        output,
        scratch,
        options,
        k=k,
        method=method,
        seed=seed,
        missing=missing,
        macrocell=macrocell,
        seams=seams,
        replace=replace,
    )
    files = None if is_dask(source) else find_files(source)
    with Folders(request.output, request.scratch) as folders, DaskEngine(scheduler, workers, memory) as engine:
        if files is None:
            engine.write_frame(source, folders.work / "frame")
            files = find_files(folders.work / "frame")
        return release_dataset(engine, files, request, folders)


def release_dataset(engine: Engine, files: Sequence[Path], request: Request, folders: Folders) -> DatasetRelease:
    """The stages in a row, on that engine and in those folders."""
    started = perf_counter()
    check_output(request.output, request.replace, files)
    digests = engine.run("taking digests", _digest, files)
    opened = open_dataset(engine, files, request, folders)
    job, found = survey_dataset(engine, opened, request)
    published = make_cells(engine, job, opened, request)
    proof = count_classes(engine, job, published, found.rows)
    schema, columns = job.schema, opened.columns
    manifest = Manifest(
        microcell=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        k=request.k,
        method=_describe_method(request, published),
        seed=request.seed,
        missing=request.missing,
        columns=manifests.describe_columns(schema, tables.read(columns.empty_table())),
        input={"rows": found.read, "columns": len(columns.names), **_describe_files(digests)},
        records={"in": found.read, "out": found.rows, "dropped": found.read - found.rows},
        cells={**_describe_cells(published), "classes": proof.classes},
        distortion=unite_losses(schema.quasi, [item.losses for item in published]),
        seconds=round(perf_counter() - started, 3),
        row_order="shuffled",
        output={"rows": found.rows, "columns": proof.columns, **_describe_files(proof.digests)},
    )
    folders.commit(tuple(item.name for item in published), manifests.to_json(manifest), request.replace)
    return DatasetRelease(request.output, proof.k, manifest, schema)


def _digest(path: Path) -> tuple[str, str]:
    return path.name, tables.file_digest(path)


def _describe_files(digests: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """How many files there are, and the digest of all of theirs in order; their names stay out."""
    together = sha256("".join(digest for _, digest in digests).encode()).hexdigest()
    return {"files": len(digests), "sha256": together, "sha256_of": "digests of files"}


def _describe_method(request: Request, published: Sequence[Published]) -> dict[str, Any]:
    why = f"on an engine, in {len(published)} macrocells of about {request.macrocell:,} records at most"
    return {
        "asked": request.method,
        "used": request.method,
        "why": why,
        "options": {**(request.options or {}), "macrocell": request.macrocell, "seams": request.seams},
    }


def _describe_cells(published: Sequence[Published]) -> dict[str, Any]:
    sizes: Counter[int] = sum((item.sizes for item in published), Counter())
    return {
        "count": sum(sizes.values()),
        "smallest": min(sizes),
        "largest": max(sizes),
        "distortion": _distortion(published),
        "sizes": {str(size): sizes[size] for size in sorted(sizes)},
        "macrocells": len(published),
    }


def _distortion(published: Sequence[Published]) -> float:
    """SSE / SST of the points that cells were made of, from the sums of all macrocells."""
    weight = fsum(item.weight for item in published)
    sums = np.array([fsum(parts) for parts in zip(*(item.sums for item in published), strict=True)])
    total = fsum(item.squares for item in published) - float(np.square(sums).sum()) / weight
    return 0.0 if total <= 0 else fsum(item.sse for item in published) / total
