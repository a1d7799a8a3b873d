"""Random cases: a table, its schema and the settings of a release, all from one integer."""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import microcell as mc
from benchmarks.fuzz.fields import (
    TAME_TEXTS,
    UNCHANGED,
    Field,
    booleans,
    dates,
    datetimes,
    floats,
    is_missing,
    many_texts,
    nasty_texts,
    singles,
    small_integers,
    token,
    with_missing,
)
from benchmarks.fuzz.relations import make_related
from microcell.hierarchies import Taxonomy

__all__ = ["FORMATS", "SOURCES", "Case", "make_case"]

FORMATS = (
    *(".csv", ".tsv", ".txt", ".jsonl", ".ndjson"),
    *(".parquet", ".arrow", ".feather", ".ipc"),
    *(".xlsx", ".sav", ".zsav", ".dta", ".xpt"),
)
"""Suffixes of all formats that can be written."""

_OUTPUTS = (*FORMATS[:10] * 3, ".csv", ".csv", ".parquet", *FORMATS[10:] * 3, ".xlsx")

SOURCES = (
    *("dict", "lists", "pandas", "pandas nullable", "pandas categories", "polars", "polars enum"),
    *("pyarrow", "pyarrow dictionaries", "pyarrow sliced"),
    *(".csv", ".tsv", ".jsonl", ".parquet", ".arrow", ".dta", ".sav"),
)
"""Forms in which a table is passed to :func:`microcell.anonymize`."""

LOSSY_SOURCES = (".csv", ".tsv", ".jsonl", ".dta", ".sav")
"""Files that cannot hold every value, or whose types are inferred: their tables are tamer."""


@dataclass(frozen=True)
class Case:
    """A table and the settings of its release.

    ``refusals`` are the codes with which the library may reject the case; any other error is a
    failure. ``fault`` is what goes wrong while the files are written.
    """

    seed: int
    fields: tuple[Field, ...]
    schema: mc.Schema
    source: str
    suffix: str
    k: int
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    publish: Mapping[str, Any] = field(default_factory=dict)
    with_cells: bool = False
    fault: str = ""
    refusals: frozenset[str] = frozenset()

    @property
    def n_rows(self) -> int:
        """Number of rows of the table."""
        return len(self.fields[0].values)

    def of_role(self, *roles: str) -> list[Field]:
        """Return the fields with these roles."""
        return [item for item in self.fields if item.role in roles]

    def released_rows(self) -> list[int]:
        """Return the rows to be released, according to how missing values are handled."""
        quasi = self.of_role("quasi")
        if self.settings.get("missing") != "drop":
            return list(range(self.n_rows))
        return [
            row
            for row in range(self.n_rows)
            if not any(is_missing(item.values[row]) for item in quasi)
        ]


# ---------------------------------------------------------------------------------------- columns


def _numeric(rng: random.Random, n: int, name: str) -> list[Field]:
    publish = rng.choice([None, "mean", "median", "range"])
    column = mc.Column(name, kind="numeric", publish=publish, weight=rng.choice([1.0, 1.0, 2.5]))
    kind, maker = rng.choice(
        [("integer", small_integers), ("float", floats), ("float", floats), ("single", singles)]
    )
    values = maker(rng, n)
    if rng.random() < 0.15:
        values[rng.randrange(n)] = 9_876_543 if kind == "integer" else 9.87e6
    if rng.random() < 0.02:
        values = [rng.choice([1e-300, 1e300, -1e300, 0.0, -0.0]) for _ in range(n)]
        kind = "float"
    return [Field(name, "quasi", kind, values, column)]


def _ordinal(rng: random.Random, n: int, name: str) -> list[Field]:
    order = tuple(rng.sample(TAME_TEXTS, rng.randint(2, 6)))
    if rng.random() < 0.3:
        return [Field(name, "quasi", "integer", small_integers(rng, n), mc.Column(name, "ordinal"))]
    column = mc.Column(name, kind="ordinal", order=order)
    return [Field(name, "quasi", "text", rng.choices(order, k=n), column)]


def _nominal(rng: random.Random, n: int, name: str) -> list[Field]:
    column = mc.Column(name, kind="nominal", publish=rng.choice([None, None, "mode", "set"]))
    if rng.random() < 0.2:
        return [Field(name, "quasi", "boolean", booleans(rng, n), column)]
    common = rng.sample(("alpha", "beta", "gamma"), rng.randint(1, 3))
    values = rng.choices(common, k=n)
    for _ in range(rng.choice([0, 1, 2, n // 5])):
        values[rng.randrange(n)] = token(rng, "Rtown")
    if rng.random() < 0.1:
        values = nasty_texts(rng, n)
    return [Field(name, "quasi", "text", values, column)]


def _hierarchy(rng: random.Random, n: int, name: str) -> list[Field]:
    """Return categories whose groups the schema has; everyone's own value may be among them."""
    leaves = [*rng.sample(TAME_TEXTS, rng.randint(1, 5)), *(token(rng, "Rtown") for _ in range(3))]
    values = rng.choices(leaves, [9] * (len(leaves) - 3) + [1] * 3, k=n)
    if rng.random() < 0.2:
        leaves = values = [token(rng, "Rtown") for _ in range(n)]
    groups = {leaf: (f"part {at % 3}", f"side {at % 3 % 2}") for at, leaf in enumerate(leaves)}
    rows = [(leaf, *groups[leaf]) for leaf in dict.fromkeys(leaves)]
    publish = rng.choice([None, "ancestor", "set"])
    column = mc.Column(name, kind="hierarchy", hierarchy=rows, publish=publish)
    return [Field(name, "quasi", "text", values, column)]


def _bands(rng: random.Random, n: int, name: str) -> list[Field]:
    publish = rng.choice([None, "ancestor", "set"])
    if rng.random() < 0.4:
        bands: tuple[Any, ...] = rng.choice([("month", "year"), ("quarter",), ("year", "decade")])
        column = mc.Column(name, bands=bands, publish=publish)
        return [Field(name, "quasi", "date", dates(rng, n), column)]
    column = mc.Column(name, bands=rng.choice([(5, 10, 20), (10,), (1, 4)]), publish=publish)
    values = small_integers(rng, n)
    if rng.random() < 0.2:
        values[rng.randrange(n)] = 9_876_543
    return [Field(name, "quasi", "integer", values, column)]


def _code(rng: random.Random, n: int, name: str) -> list[Field]:
    prefix = rng.choice(["", "08", "SW1"])
    values = [f"{prefix}{rng.randrange(10**4):04d}" for _ in range(n)]
    return [Field(name, "quasi", "text", values, mc.Column(name, kind="code"))]


def _moment(rng: random.Random, n: int, name: str) -> list[Field]:
    kind, maker = rng.choice([("date", dates), ("datetime", datetimes)])
    return [Field(name, "quasi", kind, maker(rng, n), mc.Column(name, kind="datetime"))]


def _location(rng: random.Random, n: int, name: str) -> list[Field]:
    column = mc.Column(name, "location", latitude=f"{name}_lat", longitude=f"{name}_lon")
    latitude, longitude = rng.choice([(41.1, 1.2), (89.9, 0.0), (-10.0, 179.99)])
    return [
        Field(f"{name}_lat", "quasi", "float", _degrees(rng, n, latitude, 90), column),
        Field(f"{name}_lon", "quasi", "float", _degrees(rng, n, longitude, 180), None),
    ]


def _degrees(rng: random.Random, n: int, centre: float, limit: float) -> list[Any]:
    return [round(min(max(centre + rng.gauss(0, 0.1), -limit), limit), 5) for _ in range(n)]


_QUASI = (
    *(_numeric, _numeric, _numeric, _ordinal, _nominal, _nominal, _code, _moment, _location),
    *(_hierarchy, _bands),
)

_PLAIN_NAMES = ("age", "town", "Sex", "income", "home", "grade", "born", "x1", "value", "group_b")
_ODD_NAMES = (
    *("home town", "ä", "日本", "a.b", 'say "hi"', "a,b", "=cmd", "x" * 40, "with", "int", "1st"),
    *("a\nb", " pad ", "_n_", "column;two", "#", "nan", "\ufeffbom", "a\tb", "cell"),
)


def _names(rng: random.Random, count: int, *, odd: bool) -> list[str]:
    names = rng.sample(_PLAIN_NAMES, min(count, len(_PLAIN_NAMES)))
    names += [f"more{i}" for i in range(count - len(names))]
    if odd and rng.random() < 0.08:
        names[rng.randrange(count)] = rng.choice(_ODD_NAMES)
    return names


# ------------------------------------------------------------------------------------------- cases


def make_case(seed: int) -> Case:
    """Return the case of an integer."""
    rng = random.Random(seed)
    source, suffix = rng.choice(SOURCES), rng.choice(_OUTPUTS)
    tame = source in LOSSY_SOURCES or rng.random() < 0.5
    k = rng.choice([2, 2, 3, 3, 4, 5, 7])
    n = _draw_size(rng, k)
    names = iter(_names(rng, 18, odd=source not in (".dta", ".sav")))
    fields = _people(rng, n, k, names)
    is_narrow = rng.random() < 0.75  # several times faster
    n_quasi = 1 if n > 1000 else rng.choice([1, 1, 2] if is_narrow else [1, 2, 2, 3, 4])
    for _ in range(n_quasi):
        make = rng.choice(_QUASI)
        fields += _sometimes_missing(rng, make(rng, n, next(names)))
    if n <= 1000 and rng.random() < 0.12:
        fields += _sometimes_missing(rng, make_related(rng, n, names))
    pool = UNCHANGED["tame" if tame else "nasty"] + UNCHANGED["tame"][: 0 if tame else 3]
    for _ in range(rng.choice([0, 1, 1] if is_narrow else [0, 1, 1, 2, 3])):
        kind, maker = rng.choice(pool)
        role = rng.choice(["confidential", "confidential", "keep", "drop"])
        values = with_missing(rng, maker(rng, n), rng.choice([0, 0, 0.2, 1.0 if n < 9 else 0]))
        if role == "drop":
            kind, values = "text", [token(rng, "Nnote") for _ in range(n)]
        fields.append(_sometimes_masked(rng, Field(next(names), role, kind, values)))
    if n > 1000:
        fields.append(Field(next(names), "confidential", "text", many_texts(rng, n)))
    fields += _strata_and_weights(rng, n, k, names)
    rng.shuffle(fields)
    fields = [_fit_source(item, source) for item in fields]
    case = Case(seed, tuple(fields), _schema(fields, rng), source, suffix, k, "mdav")
    return _with_settings(rng, case)


def _people(rng: random.Random, n: int, k: int, names: Iterator[str]) -> list[Field]:
    """Return a column of names, or a column of persons who may have several rows."""
    if rng.random() < 0.12:
        people = [token(rng, "Pname") for _ in range(max(k, n // rng.choice([1, 2, 3, 8])))]
        shares = [rng.paretovariate(1.0) for _ in people]
        who = [*people, *rng.choices(people, shares, k=n)][:n]
        rng.shuffle(who)
        return [Field(next(names), "person", "text", who)]
    if rng.random() < 0.8:
        who = [token(rng, "Pname") for _ in range(n)]
        return [Field(next(names), "identifiers", "text", who)]
    return []


def _sometimes_masked(rng: random.Random, item: Field) -> Field:
    """Let the schema round or bound a confidential number."""
    if item.role != "confidential" or item.type not in ("integer", "float"):
        return item
    largest = max((abs(value) for value in item.values if not is_missing(value)), default=0)
    if not 0 < largest < 1e12 or rng.random() < 0.5:
        return item
    step = rng.choice([1, 2, 5, 10, 0.5, 0.25, 1000, None])
    present = sorted(value for value in item.values if not is_missing(value))
    low, high = present[len(present) // 4], present[3 * len(present) // 4]
    is_bounded = low < high and (step is None or rng.random() < 0.3)
    masks = {"bottom": low, "top": high} if is_bounded else {}
    if rng.random() < 0.3:
        masks.pop("bottom", None)
    if step is None and not masks:
        return item
    return replace(item, column=mc.Column(item.name, kind="numeric", round=step, **masks))


def _draw_size(rng: random.Random, k: int) -> int:
    chance = rng.random()
    if chance < 0.0003:
        return 10_000
    if chance < 0.005:
        return rng.randint(200, 1_500)
    if chance < 0.02:
        return rng.randint(1, k)
    return rng.randint(k, rng.choice([k, 2 * k, 3 * k, 3 * k, 40]))


def _sometimes_missing(rng: random.Random, fields: list[Field]) -> list[Field]:
    if rng.random() < 0.75:
        return fields
    share = rng.choice([0.1, 0.3, 0.8])
    return [replace(item, values=with_missing(rng, list(item.values), share)) for item in fields]


def _strata_and_weights(rng: random.Random, n: int, k: int, names: Any) -> list[Field]:
    fields = []
    if rng.random() < 0.2 and (n >= 2 * k or rng.random() < 0.1):
        strata = [("north", "south")[row % 2] for row in range(n)]
        if rng.random() < 0.2:
            strata = [None if value == "south" else value for value in strata]
        fields.append(Field(next(names), "strata", "text", strata))
    if rng.random() < 0.2:
        spread = rng.choice([0.0, 1.0, 1.0, 4.0, 4.0, 15.0])
        weights = [math.exp(rng.gauss(0, spread)) for _ in range(n)]
        fields.append(Field(next(names), "weight", "float", weights))
    return fields


def _fit_source(item: Field, source: str) -> Field:
    """Replace what the source cannot hold, or what it may be read back as something else."""
    if source not in LOSSY_SOURCES:
        return item
    values = list(item.values)
    if item.type == "text":
        values = [value if value is None else _safe_text(value) for value in values]
    if item.column is not None and item.column.hierarchy is not None:
        assert isinstance(item.column.hierarchy, Taxonomy)
        rows = [(_safe_text(leaf), *groups) for leaf, *groups in item.column.hierarchy.rows]
        item = replace(item, column=replace(item.column, hierarchy=Taxonomy(tuple(rows))))
    if source in (".dta", ".sav") and item.type == "boolean":
        return replace(item, type="integer", values=[v if v is None else int(v) for v in values])
    return replace(item, values=values)


def _safe_text(text: str) -> str:
    """Return a text that every format keeps and no reader takes for something else."""
    kept = "".join(letter for letter in text if letter.isalnum() and ord(letter) < 128)
    return kept if kept[:1].isalpha() and kept.lower() not in _WORDS else f"t{kept}"


_WORDS = ("true", "false", "nan", "null", "none", "na", "inf", "infinity")


def _schema(fields: Sequence[Field], rng: random.Random) -> mc.Schema:
    def names(role: str) -> list[str]:
        return [item.name for item in fields if item.role == role]

    weight = names("weight")
    return mc.Schema(
        identifiers=names("identifiers"),
        quasi=[_adapted(item) for item in fields if item.role == "quasi" and item.column],
        person=names("person"),
        confidential=[item.column or item.name for item in fields if item.role == "confidential"],
        weight=weight[0] if weight else None,
        strata=names("strata"),
        keep=names("keep"),
        drop=names("drop"),
        dominance=rng.choice([(1, 0.5), (1, 0.5), (1, 1.0), (2, 1.0)]),
        person_cells=rng.choice(["rows", "together"]) if names("person") else "rows",
    )


def _adapted(item: Field) -> mc.Column:
    """Return the column, with the categories that the source can hold."""
    column = item.column
    assert column is not None
    if column.order is None:
        return column
    present = dict.fromkeys(value for value in item.values if value is not None)
    return replace(column, order=tuple(present) or column.order)


def _with_settings(rng: random.Random, case: Case) -> Case:
    settings: dict[str, Any] = {"seed": rng.randrange(5)}
    refusals = {
        *("guarantee.too_few_records", "guarantee.stratum_too_small", "table.format_limit"),
        *("data.bad_weight", "data.weight_ratio", "option.out_of_range", "schema.wrong_kind"),
        *("schema.category_order", "data.missing_values"),
    }
    if case.schema.person_cells == "together" and case.schema.strata:
        refusals |= {"schema.invalid"}  # a person has rows in several strata
    settings["missing"] = rng.choice(["error", "drop", "impute", "impute"])
    if settings["missing"] != "impute" and rng.random() < 0.95:
        gaps = 0 if settings["missing"] == "error" else rng.randint(0, max(0, case.n_rows - case.k))
        case = _with_gaps(rng, case, gaps)
    if rng.random() < 0.3:
        settings["order_key"] = f"{rng.getrandbits(128):032x}"
    quasi = case.schema.quasi
    if rng.random() < 0.08 and len(quasi) > 1:
        settings["blocks"] = rng.choice([1, 1, [[column.name] for column in quasi]])
        if any(column.related for column in quasi):
            refusals |= {"schema.invalid"}  # related columns must be in one block
    elif rng.random() < 0.15 and case.schema.confidential:
        settings["require"] = rng.choice(
            [
                {"l_diversity": 2},
                {"l_diversity": 2},
                {"homogeneous_records": 0},
                {"t_closeness": 0.4},
                {"k": case.k + 1},
            ]
        )
        refusals |= {"guarantee.requirement_not_met"}
    elif rng.random() < 0.08 and case.schema.confidential:
        settings |= _dependence(rng, case)
        refusals |= {"option.conflict", "option.unsupported", "guarantee.requirement_not_met"}
        refusals |= {"option.unknown"}  # no confidential column has a dependence loss
    elif rng.random() < 0.15:
        settings["cells"] = rng.choice([True, "balls"])
        refusals |= {"option.unsupported", "option.conflict"}
    method, options = _method(rng, case)
    publish: dict[str, Any] = {"keep_order": "order_key" not in settings and rng.random() < 0.1}
    if case.suffix in (".csv", ".tsv", ".txt") and rng.random() < 0.3:
        publish["escape_formulas"] = True
        refusals |= {"table.bad_names"}
    if any(item.type in ("float", "single") for item in case.fields):
        refusals |= {"data.not_finite"}
    fault = rng.choice(_FAULTS) if rng.random() < 0.03 and case.n_rows < 100 else ""
    return replace(
        case,
        method=method,
        options=options,
        settings=settings,
        publish=publish,
        with_cells="cells" in settings,
        fault=fault,
        refusals=frozenset(refusals),
    )


def _dependence(rng: random.Random, case: Case) -> dict[str, Any]:
    """Return settings that preserve dependence: by weight, within a limit, or with cells."""
    return rng.choice(
        [
            {"dependence": 0.3},
            {"dependence": {column.name: 0.2 for column in case.schema.confidential[:2]}},
            {"require": {"dependence_loss": rng.choice([0.2, 0.6])}},
            {"dependence": 0.3, "cells": True, "regression": rng.choice(["linear", "neighbours"])},
        ]
    )


_FAULTS = ("kill", "kill", "interrupt", "interrupt", "full", "full", "read-only", "rename")


def _with_gaps(rng: random.Random, case: Case, count: int) -> Case:
    """Fill missing quasi-identifiers with others of the column, except in ``count`` rows."""
    keep = set(rng.sample(range(case.n_rows), count))

    def filled(item: Field) -> Field:
        present = [value for value in item.values if not is_missing(value)]
        if item.role != "quasi" or not present:
            return item
        values = [
            rng.choice(present) if is_missing(value) and row not in keep else value
            for row, value in enumerate(item.values)
        ]
        return replace(item, values=values)

    return replace(case, fields=tuple(filled(item) for item in case.fields))


def _method(rng: random.Random, case: Case) -> tuple[str, dict[str, Any]]:
    if case.n_rows > 200 or rng.random() < 0.8:
        return "mdav", {}
    return rng.choice(
        [
            ("vmdav", {}),
            ("bisect", {}),
            ("anneal", {"steps": 20}),
            ("pcl", {"iterations": 5, "shakes": 5}),
            ("auto", {"effort": "fast"}),
        ]
    )
