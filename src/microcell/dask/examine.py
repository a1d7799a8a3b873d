"""Findings about a data set: rules applied to a sample of classes, and counts over all files.

The sample consists of whole classes, chosen by a digest of their published values, so that rules
about classes apply to it. Whether a combination of values is unique depends on all records: it is
determined for a sample of people, in a pass over all files. Small data sets are not sampled, and
their findings are those of the release in memory.
"""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from microcell import tables
from microcell._display import count
from microcell._files import TEXT_SUFFIXES
from microcell.dask.arrow import read_batch, read_part, row_groups
from microcell.dask.cluster import Engine
from microcell.findings import Case, find_all
from microcell.findings.registry import Alone
from microcell.findings.singling_out import SIZES, combine_hashes, wilson_interval
from microcell.measures.evidence import Evidence
from microcell.measures.people import digest_values
from microcell.model import Finding, Integers, Schema, Table

__all__ = ["EXAMINED", "Whole", "examine_sample", "read_file", "sample_classes"]

EXAMINED = 100_000
"""Approximate number of records in the sample; data sets up to this size are not sampled."""

_ASKED = 20_000
"""Approximate number of people who are looked up in all files."""

_COMBINED = 8
"""Number of columns with the most distinct values whose combinations are examined."""

_OF_ALL = (
    "risk.singled_out",
    "risk.exact_values",
    "risk.persons_repeat",
    "risk.persons_spelling",
    "risk.earlier_release",
)
_OF_ALL_CLASSES = ("utility.k_too_large", "utility.one_class")

_STEPS = 1 << 30


@dataclass(frozen=True)
class Whole:
    """The data set under examination: its published files, and counts over all of them.

    ``persons`` are the files with the digest of each row's person, in the order of ``files``; none
    if every record counts as a person. ``earlier`` names manifests of other releases, and
    ``columns`` is the common Arrow schema of Parquet files, if it may differ from that of a file.
    ``identifiers`` and ``spellings`` are numbers of values, as in a :class:`Case`.
    """

    files: tuple[Path, ...]
    rows: int
    people: int
    classes: int
    key: bytes
    work: Path
    k: int | None = None
    persons: tuple[Path, ...] = ()
    earlier: Sequence[str] = ()
    columns: Any = None
    identifiers: Mapping[str, tuple[int, int]] | None = None
    spellings: Mapping[str, tuple[int, int]] | None = None

    @property
    def sampled(self) -> bool:
        """True if the data set is too large to be examined as a whole."""
        return self.rows > EXAMINED


def sample_classes(published: Table, keys: Sequence[str], key: bytes, rows: int) -> Integers:
    """Return the rows of random classes; all rows of a data set that has few ``rows``."""
    if rows <= EXAMINED or not published.rows:
        return np.arange(published.rows)
    digests = digest_values(published, keys, key)
    return np.flatnonzero(_is_chosen(digests, EXAMINED / rows))


def _is_chosen(digests: Integers, share: float) -> Any:
    return (digests.view(np.uint64) % np.uint64(_STEPS)) < np.uint64(share * _STEPS)


def read_file(path: Path, columns: Any = None) -> Table:
    """Read a published file, with the types of ``columns`` if it is a Parquet file."""
    if columns is None or path.suffix.lower() in TEXT_SUFFIXES:
        return tables.read(path)
    return tables.read(read_part(path, range(len(row_groups(path))), columns))


def examine_sample(
    engine: Engine,
    whole: Whole,
    schema: Schema,
    before: Table,
    after: Table,
    *,
    persons: Integers | None = None,
    matched: bool = True,
) -> tuple[Finding, ...]:
    """Return the findings of a data set, given the records of the sampled classes.

    Parameters
    ----------
    before, after
        The records of the sample in the original and in the release, in the same order. If they
        are not ``matched``, ``before`` need not have any records.
    persons
        The person of each sampled record; None if every record is a person.
    """
    case = Case(
        Evidence(
            before,
            after,
            schema,
            pairs=np.arange(after.rows) if matched else None,
            persons=persons,
        ),
        whole.k,
        whole.earlier,
        formulas_escaped=whole.files[0].suffix.lower() not in TEXT_SUFFIXES,
        n_people=whole.people,
        n_classes=whole.classes,
        counted=_count_alone(engine, whole, schema, after) if whole.sampled else None,
        identifiers=whole.identifiers,
        spellings=whole.spellings,
    )
    findings = find_all(case)
    if not whole.sampled:
        return findings
    return tuple(_mark_sampled(item, after.rows, whole.rows) for item in findings)


def _mark_sampled(finding: Finding, sampled: int, rows: int) -> Finding:
    """Say that a finding is about the sample, unless it is about all records."""
    if finding.code in (*_OF_ALL, *_OF_ALL_CLASSES):
        return finding
    sentence = (
        f"{finding.sentence.removesuffix('.')} (in a random sample of {count(sampled, 'record')} "
        f"of {rows:,})."
    )
    return replace(finding, sentence=sentence)


# ------------------------------------------------------------------------ who is alone


@dataclass(frozen=True, eq=False)
class _Questions:
    """For each combination of columns, the distinct hashes of the people who are looked up."""

    names: tuple[str, ...]
    key: bytes
    hashes: Mapping[tuple[str, ...], Any]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Hashes of some rows of a file by column, and the person of each row."""

    hashes: Mapping[str, Any]
    persons: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


def _count_alone(
    engine: Engine, whole: Whole, schema: Schema, sample: Table
) -> dict[tuple[str, ...], Alone]:
    """Estimate, per combination of columns, how many people are alone with their values."""
    weight = () if schema.weight is None else (schema.weight,)
    kept = [name for name in (*schema.keep, *weight) if name in sample.columns]
    single = [column.name for column in schema.confidential if column.name in sample.columns]
    names = (*kept, *single)
    if not names:
        return {}
    items = [
        (number, path, whole.persons[number] if whole.persons else None)
        for number, path in enumerate(whole.files)
    ]
    share = min(1.0, _ASKED / whole.people)
    task = partial(_draw_people, whole.columns, names, whole.key, share)
    parts: list[_Rows] = engine.run("sampling people", task, items)
    persons = np.concatenate([part.persons for part in parts])
    columns = {name: np.concatenate([part.hashes[name] for part in parts]) for name in names}
    keys = _combinations(kept, single, columns)
    combined = {key: combine_hashes([columns[name] for name in key]) for key in keys}
    path = whole.work / "questions.pickle"
    path.write_bytes(
        pickle.dumps(
            _Questions(
                names, whole.key, {key: np.unique(hashes) for key, hashes in combined.items()}
            )
        )
    )
    answers = engine.run("looking up people", partial(_look_up, path, whole.columns), items)
    return {
        key: _estimate(hashes, persons, [answer[key] for answer in answers], whole.people)
        for key, hashes in combined.items()
    }


def _combinations(
    kept: Sequence[str], single: Sequence[str], columns: Mapping[str, Any]
) -> list[tuple[str, ...]]:
    """Return every single column, and combinations of the columns with the most values."""
    telling = sorted(kept, key=lambda name: -len(np.unique(columns[name])))[:_COMBINED]
    several = [tuple(sorted(key)) for size in SIZES[1:] for key in combinations(telling, size)]
    return [*((name,) for name in (*kept, *single)), *several]


def _read_hashes(
    columns: Any, names: Sequence[str], key: bytes, item: tuple[int, Path, Path | None]
) -> tuple[dict[str, Any], Integers]:
    """Return hashes of the columns of a file, and the number or digest of each row's person."""
    number, path, persons = item
    table = read_file(path, columns)
    hashes = {name: digest_values(table, [name], key).view(np.uint64) for name in names}
    if persons is None:
        return hashes, (np.int64(number) << np.int64(40)) + np.arange(table.rows)
    digests: Integers = read_batch(persons, 0).column("person").to_numpy()
    return hashes, digests


def _draw_people(
    columns: Any,
    names: Sequence[str],
    key: bytes,
    share: float,
    item: tuple[int, Path, Path | None],
) -> _Rows:
    """Return the rows of random people; those of a person are drawn in all files or in none."""
    hashes, persons = _read_hashes(columns, names, key, item)
    mixed = combine_hashes([persons.view(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)] * 2)
    rows = np.flatnonzero(_is_chosen(mixed.view(np.int64), share))
    return _Rows({name: values[rows] for name, values in hashes.items()}, persons[rows])


def _look_up(
    path: Path, columns: Any, item: tuple[int, Path, Path | None]
) -> dict[tuple[str, ...], tuple[Integers, Integers]]:
    """Return the lowest and highest person in a file with each hash that is looked up."""
    questions: _Questions = pickle.loads(path.read_bytes())
    hashes, persons = _read_hashes(columns, questions.names, questions.key, item)
    answers = {}
    for key, wanted in questions.hashes.items():
        low = np.full(len(wanted), np.iinfo(np.int64).max)
        high = np.full(len(wanted), np.iinfo(np.int64).min)
        if len(wanted):
            found = combine_hashes([hashes[name] for name in key])
            places = np.minimum(np.searchsorted(wanted, found), len(wanted) - 1)
            rows = np.flatnonzero(wanted[places] == found)
            np.minimum.at(low, places[rows], persons[rows])
            np.maximum.at(high, places[rows], persons[rows])
        answers[key] = low, high
    return answers


def _estimate(
    hashes: Any,
    persons: Integers,
    answers: Sequence[tuple[Integers, Integers]],
    n_people: int,
) -> Alone:
    """Estimate the number of people who are alone from those who were looked up."""
    n_asked = len(np.unique(persons))
    if not n_asked:
        return Alone(0, 0.0)
    low = np.minimum.reduce([answer[0] for answer in answers])
    high = np.maximum.reduce([answer[1] for answer in answers])
    alone = (low == high)[np.searchsorted(np.unique(hashes), hashes)]
    share = len(np.unique(persons[alone])) / n_asked
    return Alone(round(share * n_people), share, wilson_interval(share, n_asked))
