"""Random cases: a table, its schema and the settings of a release, all from one integer."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any

import microcell as mc

__all__ = ["FORMATS", "SOURCES", "Case", "Field", "make_case"]

Maker = Callable[[random.Random, int], list[Any]]

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

_LETTERS = "bcdfghjklmnpqrstvwxz"


@dataclass(frozen=True)
class Field:
    """A column: its role, the type of its values, and the values (None where missing)."""

    name: str
    role: str
    type: str
    values: Sequence[Any]
    column: mc.Column | None = None

    def take(self, rows: Sequence[int]) -> "Field":
        """Return the field with these rows."""
        return replace(self, values=[self.values[row] for row in rows])


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


def is_missing(value: Any) -> bool:
    """Return True for None and NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def token(rng: random.Random, start: str) -> str:
    """Return a text that appears nowhere by accident."""
    return start + "".join(rng.choices(_LETTERS, k=10))


# ------------------------------------------------------------------------------------------- values

_NASTY_TEXTS = (
    *("a ", " a", "  ", "a\tb", "a,b", "a;b", 'a"b', '"a"', "'a'", "''", "a\nb", "a\r\nb", "\r"),
    *("NA", "null", "None", "nan", "NaN", "inf", "-", "--", "TRUE", "false", "N/A", "#N/A"),
    *("1", "1.0", "007", "1e5", "0x10", "1,5", "-5", "+5", "1_000", "٣", "2020-01-01", "12:30"),
    *("=1+1", "+1+1", "-1+1", "@a", "\ta", "\ra", "'=1+1", "''=1", "=", "@", "'", "'-5"),
    *("\ufeff", "\ufeffa", "é", "e\u0301", "日本", "😀", "\u202eabc", "\u200b", "a\u2028b", "\x7f"),
    *("a\0", "b\0x", "\0", "\x01", "\x1b[0m", "_x0041_", "<a>&amp;", "]]>", "\ufffe", "\ud7ff"),
    *("", "#", "#comment", "\\", "\\n", "\\N", "{", "[1]", "x" * 300, "é" * 130, " \u00a0"),
)
_TAME_TEXTS = ("alpha", "beta", "gamma", "delta", "a b", "ö", "A-1", "x_y")


def _nasty_texts(rng: random.Random, n: int) -> list[Any]:
    pool = rng.sample(_NASTY_TEXTS, rng.randint(1, 6)) + rng.sample(_TAME_TEXTS, rng.randint(0, 3))
    return rng.choices(pool, k=n)


def _tame_texts(rng: random.Random, n: int) -> list[Any]:
    return rng.choices(rng.sample(_TAME_TEXTS, rng.randint(1, 5)), k=n)


def _many_texts(rng: random.Random, n: int) -> list[Any]:
    return [f"v{row}-{rng.randrange(10**6)}" for row in range(n)]


def _small_integers(rng: random.Random, n: int) -> list[Any]:
    low = rng.choice([-3, 0, 18, 10**6])
    width = rng.choice([0, 1, 5, 80])
    return [rng.randint(low, low + width) for _ in range(n)]


def _large_integers(rng: random.Random, n: int) -> list[Any]:
    edges = [0, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**62 + 1]
    return [rng.choice(edges) for _ in range(n)]


def _floats(rng: random.Random, n: int) -> list[Any]:
    digits = rng.choice([0, 1, 2, 17])
    scale = 10.0 ** rng.choice([-5, 0, 0, 0, 3, 9])
    return [round(rng.gauss(0, 1) * scale, digits) for _ in range(n)]


def _nasty_floats(rng: random.Random, n: int) -> list[Any]:
    pool = [0.0, -0.0, 0.1, 1 / 3, 5e-324, 2.2e-308, 1e-100, 1e16, 1e22, 1.7e308, -1e300, 123456.7]
    if rng.random() < 0.2:
        pool += [math.inf, -math.inf]
    return [rng.choice(pool) for _ in range(n)]


def _singles(rng: random.Random, n: int) -> list[Any]:
    return [rng.choice([0.5, 0.1, 1e-30, 3e38, 16777217.0, rng.gauss(0, 1)]) for _ in range(n)]


def _booleans(rng: random.Random, n: int) -> list[Any]:
    return [rng.random() < 0.4 for _ in range(n)]


def _dates(rng: random.Random, n: int) -> list[Any]:
    first = rng.choice([date(1950, 1, 1), date(2020, 2, 27), date(1899, 12, 20), date(1600, 1, 1)])
    return [first + timedelta(days=rng.randint(0, rng.choice([1, 400, 20_000]))) for _ in range(n)]


def _recent_dates(rng: random.Random, n: int) -> list[Any]:
    return [date(2000, 1, 1) + timedelta(days=rng.randrange(999)) for _ in range(n)]


def _datetimes(rng: random.Random, n: int) -> list[Any]:
    step = rng.choice([86_400_000_000, 1_000_000, 1_000, 1])
    start = datetime(rng.choice([1925, 1970, 2024]), 5, 1)
    return [start + timedelta(microseconds=step * rng.randint(0, 10**5)) for _ in range(n)]


_UNCHANGED: dict[str, tuple[tuple[str, Maker], ...]] = {
    "nasty": (
        ("text", _nasty_texts),
        ("text", _nasty_texts),
        ("integer", _large_integers),
        ("float", _nasty_floats),
        ("single", _singles),
        ("date", _dates),
        ("datetime", _datetimes),
    ),
    "tame": (
        ("text", _tame_texts),
        ("text", _many_texts),
        ("integer", _small_integers),
        ("float", _floats),
        ("boolean", _booleans),
        ("date", _recent_dates),
    ),
}


def _with_missing(rng: random.Random, values: list[Any], share: float) -> list[Any]:
    return [None if rng.random() < share else value for value in values]


# ---------------------------------------------------------------------------------------- columns


def _numeric(rng: random.Random, n: int, name: str) -> list[Field]:
    publish = rng.choice([None, "mean", "median", "range"])
    column = mc.Column(name, kind="numeric", publish=publish, weight=rng.choice([1.0, 1.0, 2.5]))
    kind, maker = rng.choice(
        [("integer", _small_integers), ("float", _floats), ("float", _floats), ("single", _singles)]
    )
    values = maker(rng, n)
    if rng.random() < 0.15:
        values[rng.randrange(n)] = 9_876_543 if kind == "integer" else 9.87e6
    if rng.random() < 0.02:
        values = [rng.choice([1e-300, 1e300, -1e300, 0.0, -0.0]) for _ in range(n)]
        kind = "float"
    return [Field(name, "quasi", kind, values, column)]


def _ordinal(rng: random.Random, n: int, name: str) -> list[Field]:
    order = tuple(rng.sample(_TAME_TEXTS, rng.randint(2, 6)))
    if rng.random() < 0.3:
        return [
            Field(name, "quasi", "integer", _small_integers(rng, n), mc.Column(name, "ordinal"))
        ]
    column = mc.Column(name, kind="ordinal", order=order)
    return [Field(name, "quasi", "text", rng.choices(order, k=n), column)]


def _nominal(rng: random.Random, n: int, name: str) -> list[Field]:
    column = mc.Column(name, kind="nominal")
    if rng.random() < 0.2:
        return [Field(name, "quasi", "boolean", _booleans(rng, n), column)]
    common = rng.sample(("alpha", "beta", "gamma"), rng.randint(1, 3))
    values = rng.choices(common, k=n)
    for _ in range(rng.choice([0, 1, 2, n // 5])):
        values[rng.randrange(n)] = token(rng, "Rtown")
    if rng.random() < 0.1:
        values = _nasty_texts(rng, n)
    return [Field(name, "quasi", "text", values, column)]


def _code(rng: random.Random, n: int, name: str) -> list[Field]:
    prefix = rng.choice(["", "08", "SW1"])
    values = [f"{prefix}{rng.randrange(10**4):04d}" for _ in range(n)]
    return [Field(name, "quasi", "text", values, mc.Column(name, kind="code"))]


def _moment(rng: random.Random, n: int, name: str) -> list[Field]:
    kind, maker = rng.choice([("date", _dates), ("datetime", _datetimes)])
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


_QUASI = (_numeric, _numeric, _numeric, _ordinal, _nominal, _nominal, _code, _moment, _location)

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
    names = iter(_names(rng, 12, odd=source not in (".dta", ".sav")))
    fields: list[Field] = []
    if rng.random() < 0.8:
        who = [token(rng, "Pname") for _ in range(n)]
        fields.append(Field(next(names), "identifiers", "text", who))
    n_quasi = 1 if n > 1000 else rng.choice([1, 1, 2, 2, 3, 4])
    for _ in range(n_quasi):
        make = rng.choice(_QUASI)
        fields += _sometimes_missing(rng, make(rng, n, next(names)))
    pool = _UNCHANGED["tame" if tame else "nasty"] + _UNCHANGED["tame"][: 0 if tame else 3]
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        kind, maker = rng.choice(pool)
        role = rng.choice(["confidential", "confidential", "keep", "drop"])
        values = _with_missing(rng, maker(rng, n), rng.choice([0, 0, 0.2, 1.0 if n < 9 else 0]))
        if role == "drop":
            kind, values = "text", [token(rng, "Nnote") for _ in range(n)]
        fields.append(Field(next(names), role, kind, values))
    if n > 1000:
        fields.append(Field(next(names), "confidential", "text", _many_texts(rng, n)))
    fields += _strata_and_weights(rng, n, k, names)
    rng.shuffle(fields)
    fields = [_fit_source(item, source) for item in fields]
    case = Case(seed, tuple(fields), _schema(fields, rng), source, suffix, k, "mdav")
    return _with_settings(rng, case)


def _draw_size(rng: random.Random, k: int) -> int:
    chance = rng.random()
    if chance < 0.0003:
        return 10_000
    if chance < 0.005:
        return rng.randint(200, 1_500)
    if chance < 0.02:
        return rng.randint(1, k)
    return rng.randint(k, rng.choice([k, 2 * k, 3 * k, 40]))


def _sometimes_missing(rng: random.Random, fields: list[Field]) -> list[Field]:
    if rng.random() < 0.75:
        return fields
    share = rng.choice([0.1, 0.3, 0.8])
    return [replace(item, values=_with_missing(rng, list(item.values), share)) for item in fields]


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
        confidential=names("confidential"),
        weight=weight[0] if weight else None,
        strata=names("strata"),
        keep=names("keep"),
        drop=names("drop"),
        dominance=rng.choice([(1, 0.5), (1, 0.5), (1, 1.0), (2, 1.0)]),
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
    settings["missing"] = rng.choice(["error", "drop", "impute", "impute"])
    if settings["missing"] != "impute" and rng.random() < 0.95:
        gaps = 0 if settings["missing"] == "error" else rng.randint(0, max(0, case.n_rows - case.k))
        case = _with_gaps(rng, case, gaps)
    if rng.random() < 0.3:
        settings["order_key"] = f"{rng.getrandbits(128):032x}"
    quasi = case.schema.quasi
    if rng.random() < 0.08 and len(quasi) > 1:
        settings["blocks"] = rng.choice([1, 1, [[column.name] for column in quasi]])
    elif rng.random() < 0.15 and case.schema.confidential:
        settings["require"] = rng.choice(
            [{"l_diversity": 2}, {"l_diversity": 2}, {"t_closeness": 0.4}, {"k": case.k + 1}]
        )
        refusals |= {"guarantee.requirement_not_met"}
    elif rng.random() < 0.05 and case.schema.confidential:
        settings["dependence"] = 0.3
        refusals |= {"option.conflict"}
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
            ("pcl", {}),
            ("auto", {"effort": "fast"}),
        ]
    )
