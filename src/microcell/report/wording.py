"""What a manifest tells, in words: the roles of the columns and how the release was made.

A manifest may be any file that a user gives, so parts that are not as expected are left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

import numpy as np

from microcell.model import Audit, Measure

__all__ = [
    "Fact",
    "Group",
    "amount",
    "counted",
    "decimals",
    "direction",
    "facts",
    "guarantee",
    "imputed",
    "is_fit",
    "listing",
    "making",
    "rerun",
    "roles",
    "sampled",
]

_COUNTED = ("records", "classes", "columns", "values", "statements")
"""Units of things that are counted."""


@dataclass(frozen=True)
class Fact:
    """A short heading and what is to be said under it."""

    label: str
    text: str


def guarantee(audit: Audit) -> str:
    """The sentence that a data officer can sign: what each published record shares with others, or what is wrong.

    Examples
    --------
    >>> audit = Audit(keys=("sex", "age"), rows_original=9, rows_released=9, measures={},
    ...               class_sizes=np.array([3, 3, 3]))
    >>> guarantee(audit)
    'Each of the 9 published records shares its values of sex and age with at least 2 others: the table is
    3-anonymous in these columns.'
    """
    problems = list(_problems(audit))
    if problems:
        return f"Not fit to publish: {listing(problems)}."
    if not audit.rows_released:
        return "The published table is empty: it holds no record to protect."
    k = _smallest(audit)
    several = len(audit.keys) != 1
    return (
        f"Each of the {audit.rows_released:,} published records shares its value{'s' * several} of "
        f"{listing(audit.keys)} with at least "
        f"{counted(k - 1, 'other')}: the table is {k:,}-anonymous in {'these columns' if several else 'this column'}."
    )


def is_fit(audit: Audit) -> bool:
    """True if the table may be published: it holds records, none is alone, and nothing is wrong with it."""
    return audit.rows_released > 0 and not any(_problems(audit))


def facts(audit: Audit) -> tuple[Fact, ...]:
    """What a reader looks for first: k, classes, records in and out."""
    sizes = audit.class_sizes
    found = [
        Fact("Smallest class", counted(_smallest(audit), "record")),
        Fact("Classes", f"{len(sizes):,}"),
    ]
    if len(sizes):
        found.append(Fact("Class sizes", _sizes_told(audit)))
    found.append(
        Fact(
            "Records", f"{audit.rows_original:,} in the original, {audit.rows_released:,} published"
        )
    )
    if "distortion" in audit.measures:
        found.append(Fact("Information loss", f"{100 * audit['distortion']:.3g} %"))
    return tuple(found)


def listing(items: Sequence[str]) -> str:
    """The items in a row: "sex, age and home".

    Examples
    --------
    >>> listing(["sex", "age", "home"])
    'sex, age and home'
    """
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def counted(count: int, noun: str) -> str:
    """The number with its noun: "1 record", "2,000 records"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def amount(measure: Measure) -> str:
    """A measure's value for people: counts with separators, all else with up to four decimals.

    Examples
    --------
    >>> amount(Measure("k", 2000, "records", False, "")), amount(Measure("linkage", 0.05, "share", True, ""))
    ('2,000', '0.05')
    """
    if measure.unit in _COUNTED and float(measure.value).is_integer():
        return f"{measure.value:,.12g}"
    return decimals(measure.value)


def decimals(value: float) -> str:
    """The value with up to four decimals; three digits where these would not tell it.

    Examples
    --------
    >>> decimals(0.25), decimals(1 / 3), decimals(0.0), decimals(1.5e-7)
    ('0.25', '0.3333', '0', '1.5e-07')
    """
    if value and not 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}"
    return f"{value:.4f}".rstrip("0").rstrip(".")


def sampled(measure: Measure) -> str:
    """The interval of a measure that was sampled, in words; nothing for others.

    Examples
    --------
    >>> sampled(Measure("linkage", 0.05, "share", True, "", (0.04, 0.06)))
    '0.04 to 0.06, sampled'
    """
    if measure.interval is None:
        return ""
    return f"{decimals(measure.interval[0])} to {decimals(measure.interval[1])}, sampled"


def direction(measure: Measure) -> str:
    """Which way is better: "less" or "more"."""
    return "less" if measure.lower_is_better else "more"


@dataclass(frozen=True)
class _Problem:
    """How a count that must be 0 is told: the noun counted, and what is wrong with one or with several."""

    noun: str
    one: str
    several: str


_PROBLEMS: Mapping[str, _Problem] = {
    "identifiers_left": _Problem(
        "column", "to be removed is still in the table", "to be removed are still in the table"
    ),
    "records_unaccounted": _Problem(
        "published record", "cannot come from the original", "cannot come from the original"
    ),
    "columns_missing": _Problem(
        "column", "to be published is missing", "to be published are missing"
    ),
    "columns_unexpected": _Problem(
        "column", "in the table has no role", "in the table have no role"
    ),
    "values_changed": _Problem(
        "value",
        "to be published unchanged is not the original's",
        "to be published unchanged are not the original's",
    ),
    "manifest_contradictions": _Problem(
        "statement", "of the manifest does not hold", "of the manifest do not hold"
    ),
}


def _problems(audit: Audit) -> Iterator[str]:
    for name, problem in _PROBLEMS.items():
        count = int(audit[name]) if name in audit.measures else 0
        if count:
            yield f"{counted(count, problem.noun)} {problem.one if count == 1 else problem.several}"
    alone = int((audit.class_sizes == 1).sum())
    if alone:
        yield (
            f"{alone:,} of the {counted(audit.rows_released, 'published record')} "
            f"{'is' if alone == 1 else 'are'} alone with {'its' if alone == 1 else 'their'} "
            f"value{'s' * (len(audit.keys) != 1)} of {listing(audit.keys)}, so k is 1 and nothing protects "
            f"{'it' if alone == 1 else 'them'}"
        )


def _smallest(audit: Audit) -> int:
    return int(audit.class_sizes.min()) if len(audit.class_sizes) else 0


def _sizes_told(audit: Audit) -> str:
    low, high = int(audit.class_sizes.min()), int(audit.class_sizes.max())
    if low == high:
        return f"all of {counted(low, 'record')}"
    median = f"{float(np.median(audit.class_sizes)):,.1f}".removesuffix(".0")
    return f"{low:,} to {high:,}, median {median}"


Plain = Mapping[str, Any]

_ROLES: Mapping[str, str] = {
    "identifier": "Removed as identifiers",
    "drop": "Removed on request",
    "quasi": "Quasi-identifiers",
    "strata": "Strata, unchanged",
    "confidential": "Confidential, unchanged",
    "keep": "Kept, unchanged",
    "weight": "Weight, unchanged",
}
_PUBLISHED: Mapping[str, str] = {
    "mean": "the mean of the cell",
    "median": "the median of the cell",
    "range": "the range of the cell",
    "mode": "the most frequent value of the cell",
    "prefix": "the first characters shared in the cell",
}
_MISSING: Mapping[str, str] = {"error": "refused", "drop": "dropped", "impute": "imputed"}
_ORDERS: Mapping[str, str] = {"shuffled": "shuffled", "kept": "as in the original"}


@dataclass(frozen=True)
class Group:
    """The columns of one role, each with what becomes of it."""

    label: str
    columns: tuple[str, ...]


def roles(manifest: Plain | None) -> tuple[Group, ...]:
    """The columns of each role, as the manifest tells them; nothing without one.

    Examples
    --------
    >>> told = roles({"columns": {"name": {"role": "identifier"},
    ...                           "age": {"role": "quasi", "kind": "numeric", "publish": "mean"}}})
    >>> [group.columns for group in told]
    [('name',), ('age (numeric: the mean of the cell)',)]
    """
    groups: dict[str, list[str]] = {role: [] for role in _ROLES}
    for name, column in _part(manifest or {}, "columns").items():
        role = column.get("role") if isinstance(column, Mapping) else None
        if isinstance(role, str) and role in groups:
            groups[role].append(f"{name}{_treatment(column)}")
    return tuple(Group(_ROLES[role], tuple(names)) for role, names in groups.items() if names)


def making(manifest: Plain | None) -> tuple[Fact, ...]:
    """How the release was made, as the manifest tells it; nothing without one.

    Examples
    --------
    >>> making({"cells": {"count": 400, "smallest": 5, "largest": 5}})
    (Fact(label='Cells', text='400, all of 5 records'),)
    """
    told = ((label, tell(manifest or {})) for label, tell in _MAKING.items())
    return tuple(Fact(label, text) for label, text in told if text)


def imputed(manifest: Plain | None) -> str:
    """That missing values were imputed, and how many, in a sentence; nothing if there were none, or nothing tells.

    Examples
    --------
    >>> imputed({"records": {"read": 60, "released": 60, "dropped": 0, "imputed": 1}})
    '1 missing value of a quasi-identifier was imputed: its record publishes what the others of its cell do.'
    """
    count = _part(manifest or {}, "records").get("imputed")
    if not isinstance(count, int) or count < 1:
        return ""
    if count == 1:
        return "1 missing value of a quasi-identifier was imputed: its record publishes what the others of its cell do."
    return (
        f"{count:,} missing values of quasi-identifiers were imputed: their records publish what the others of their "
        "cells do."
    )


def rerun(manifest: Plain | None) -> str:
    """The command that makes the release again, if the manifest tells enough for it; the files are to be filled in.

    Examples
    --------
    >>> rerun({"k": 5, "seed": 7, "method": {"requested": "vmdav", "used": "vmdav", "options": {"gamma": 0.2}}})
    'microcell anonymize ORIGINAL -s SCHEMA -k 5 --method vmdav --set gamma=0.2 --seed 7 -o RELEASED'
    """
    told = manifest or {}
    method, k, seed = _part(told, "method"), told.get("k"), told.get("seed")
    asked = method.get("requested", method.get("used"))
    if not (isinstance(k, int) and isinstance(seed, int) and isinstance(asked, str)) or method.get(
        "batches"
    ):
        return ""  # what came in batches is not made again by one command
    words = [
        "microcell",
        "anonymize",
        "ORIGINAL",
        "-s",
        "SCHEMA",
        "-k",
        _asked_k(told),
        "--method",
        asked,
    ]
    words += [
        *_settings(_part(method, "options")),
        "--seed",
        str(seed),
        *_demands(told),
        *_design(told),
    ]
    if told.get("missing") in ("drop", "impute"):
        words += ["--missing", str(told["missing"])]
    function = _part(told, "cells").get("function")
    if function in ("power", "balls"):
        words += ["--cells", "CELLS.json", "--cells-kind", str(function)]
    if told.get("row_order") == "kept":
        words.append("--keep-order")
    return " ".join(quote(word) for word in (*words, "-o", "RELEASED"))


def _asked_k(manifest: Plain) -> str:
    """The k that was asked for; of blocks, each has it, and the manifest's own is what they come to together."""
    return _word(_part(manifest, "blocks").get("k", manifest.get("k")))


def _settings(options: Plain) -> Iterator[str]:
    for name, value in options.items():
        if name == "effort":
            yield from ("--effort", str(value))
        elif isinstance(value, (bool, int, float, str)):
            yield from (
                "--set",
                f"{name}={str(value).lower() if isinstance(value, bool) else value}",
            )


def _design(manifest: Plain) -> Iterator[str]:
    """The weight of dependence, and the blocks."""
    weight, columns = (
        _part(manifest, "dependence").get("weight"),
        _part(manifest, "blocks").get("columns"),
    )
    if isinstance(weight, (int, float)):
        yield from ("--dependence", _exact(weight))
    if isinstance(columns, list):
        yield from (
            "--blocks",
            ";".join(",".join(map(str, names)) for names in columns if isinstance(names, list)),
        )


def _demands(manifest: Plain) -> Iterator[str]:
    """The requirements that the release was made to meet."""
    for name, limit in _limits(manifest).items():
        yield from ("--require", f"{name}={_exact(limit)}")


def _limits(manifest: Plain) -> dict[str, float]:
    limits = _part(_part(manifest, "requirements"), "limits")
    return {name: limit for name, limit in limits.items() if isinstance(limit, (int, float))}


def _exact(number: float) -> str:
    """All digits, as a run with fewer would be another one; whole numbers as such."""
    return str(int(number)) if float(number).is_integer() else repr(float(number))


def _treatment(column: Plain) -> str:
    """What is published of a quasi-identifier, in brackets; nothing for other columns."""
    if column.get("role") != "quasi":
        return ""
    published = _PUBLISHED.get(str(column.get("publish")), "")
    words = ": ".join(filter(None, (_word(column.get("kind")), published)))
    weight = _word(column.get("weight"))
    heavy = f"weight {weight}" if weight not in ("", "1") else ""
    inside = "; ".join(filter(None, (words, heavy)))
    return f" ({inside})" if inside else ""


def _method(manifest: Plain) -> str:
    method = _part(manifest, "method")
    used, asked, why = (_word(method.get(key)) for key in ("used", "requested", "reason"))
    if not used:
        return ""
    options = ", ".join(
        f"{name} = {_word(value)}" for name, value in _part(method, "options").items()
    )
    chosen = f" (asked for: {asked})" if asked not in ("", used) else ""
    reason = f", because {why}" if chosen and why else ""
    return f"{used}{f' with {options}' if options else ''}{chosen}{reason}"


def _batches(manifest: Plain) -> str:
    added = _part(manifest, "method").get("batches")
    if not isinstance(added, list) or not added:
        return ""
    return f"{len(added):,} batch{'es' * (len(added) > 1)} added after the base"


def _records(manifest: Plain) -> str:
    records = _part(manifest, "records")
    parts = (("read", "in the original"), ("released", "published"), ("dropped", "dropped"))
    counts = ((records.get(key), words) for key, words in parts)
    return ", ".join(f"{count:,} {words}" for count, words in counts if isinstance(count, int))


def _cells(manifest: Plain) -> str:
    cells = _part(manifest, "cells")
    count, low, high = (cells.get(key) for key in ("count", "smallest", "largest"))
    if not (isinstance(count, int) and isinstance(low, int) and isinstance(high, int)):
        return _word(count)
    sizes = "all of " if low == high else f"of {low:,} to "
    return f"{count:,}, {sizes}{counted(high, 'record')}"


def _blocks(manifest: Plain) -> str:
    """What blocks promise, and what not."""
    blocks = _part(manifest, "blocks")
    columns, k = blocks.get("columns"), blocks.get("k")
    if not isinstance(k, int):
        return ""
    whole = (
        "" if blocks.get("jointly_k_anonymous") is True else f", and not {k}-anonymous as a whole"
    )
    if not isinstance(columns, list):  # the public is told no more
        return f"{k}-anonymous in each block{whole}"
    named = "; ".join(", ".join(map(str, names)) for names in columns if isinstance(names, list))
    return f"{k}-anonymous in each of {counted(len(columns), 'block')} ({named}){whole}"


def _dependence(manifest: Plain) -> str:
    told = _part(manifest, "dependence")
    names = ("weight", "quasi_identifier_loss", "confidential_loss", "weighted_loss")
    figures = [told.get(name) for name in names]
    if not all(isinstance(figure, (int, float)) for figure in figures):
        return ""
    weight, lost, unpredicted, both = map(_word, figures)
    return f"lambda = {weight}: D_X {lost}, D_Y {unpredicted}, weighted {both}, of the points"


def _required(manifest: Plain) -> str:
    return ", ".join(f"{name} = {limit:g}" for name, limit in _limits(manifest).items())


def _merged(manifest: Plain) -> str:
    merged = _part(manifest, "requirements")
    count, before = (merged.get(key) for key in ("cells_merged", "cells_before"))
    if not (isinstance(count, int) and isinstance(before, int)):
        return ""
    return f"{count:,} of {counted(before, 'cell')} merged away to meet what was required"


def _original(manifest: Plain) -> str:
    given = _part(manifest, "input")
    sizes = ((given.get(key), noun) for key, noun in (("rows", "row"), ("columns", "column")))
    return ", ".join(counted(size, noun) for size, noun in sizes if isinstance(size, int))


def _digest_of(what: str) -> Callable[[Plain], str]:
    def tell(manifest: Plain) -> str:
        given = _part(manifest, "input")
        return _word(given.get("sha256")) if given.get("sha256_of", "file") == what else ""

    return tell


def _moment(manifest: Plain) -> str:
    return _word(manifest.get("created")).replace("T", " ").replace("+00:00", " UTC")


def _duration(manifest: Plain) -> str:
    seconds = _word(manifest.get("seconds"))
    return f"{seconds} seconds" if seconds else ""


def _word_of(key: str, words: Mapping[str, str] | None = None) -> Callable[[Plain], str]:
    """A teller of one entry, in the words given for it."""
    return lambda manifest: (words or {}).get(_word(manifest.get(key)), _word(manifest.get(key)))


def _part(manifest: Plain, key: str) -> Plain:
    part = manifest.get(key)
    return part if isinstance(part, Mapping) else {}


def _word(value: Any) -> str:
    """A single value in words; nothing for what is none."""
    if value is None or isinstance(value, (Mapping, list, tuple)):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


_MAKING: Mapping[str, Callable[[Plain], str]] = {
    "k asked for": _asked_k,
    "Method": _method,
    "Seed": _word_of("seed"),
    "Missing values": _word_of("missing", _MISSING),
    "Records": _records,
    "Batches": _batches,
    "Cells": _cells,
    "Blocks of columns": _blocks,
    "Preserved dependence": _dependence,
    "Required of the release": _required,
    "Merging": _merged,
    "Order of rows": _word_of("row_order", _ORDERS),
    "Original": _original,
    "SHA-256 of the original file": _digest_of("file"),
    "SHA-256 of the original's contents": _digest_of("contents"),
    "SHA-256 of the released file": lambda manifest: _word(_part(manifest, "output").get("sha256")),
    "Made": _moment,
    "Duration": _duration,
    "Version of microcell": _word_of("microcell"),
}
"""Headings, and what tells the text under each; a heading without text is left out."""
