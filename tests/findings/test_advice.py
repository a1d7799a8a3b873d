"""For every code: a careless release that raises it, and the advice that removes it."""

import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import tomlkit

import microcell as mc
from microcell.findings import rules
from microcell.model import Column, Schema
from microcell.schema import schema_from_toml, schema_to_toml

_COLUMN = re.compile(r"\[columns\.([^\]]+)\] ")
_SETTING = re.compile(r'(\w+) = ("[^"]*"|\[[^\]]*\]|[-\d.e+]+)(, | and )?')


@dataclass(frozen=True)
class Run:
    """A release as a careless user would make it: the table, its schema and the options.

    ``by_hand`` changes the table, and ``published`` is where it goes; ``audited`` is a table that
    somebody else made from it.
    """

    table: dict[str, Any]
    schema: Schema
    options: dict[str, Any] = field(default_factory=dict)
    path: str = "release.csv"
    escape: bool = False
    audited: dict[str, Any] | None = None

    def findings(self, folder):
        if self.audited is not None:
            return mc.audit(self.table, self.audited, self.schema).findings
        release = mc.anonymize(self.table, self.schema, method="mdav", **self.options)
        return release.examine(folder / self.path, escape_formulas=self.escape)


def edit_schema(schema, advice):
    """Write the lines of the advice into the schema file."""
    document = tomlkit.parse(schema_to_toml(schema))
    for match in _COLUMN.finditer(advice):
        column, position = document["columns"][match[1]], match.end()
        while setting := _SETTING.match(advice, position):
            column[setting[1]] = tomlkit.value(setting[2])
            position = setting.end()
        if column["role"] != "quasi":
            for key in ("kind", "publish", "weight"):
                column.pop(key, None)
    if match := re.match(r"dominance = (\[[^\]]*\])", advice):
        document["dominance"] = tomlkit.value(match[1])
    return schema_from_toml(tomlkit.dumps(document))


def follow(run, finding):
    """Do what the first alternative of the advice says: schema lines and options."""
    advice = re.split(r", or |; if |, --effort| \(", finding.advice)[0]
    options = dict(run.options)
    if match := re.match(r"-k (\d+)", advice):
        options["k"] = int(match[1])
    if match := re.match(r"--require (\S+)=(\d+)", advice):
        options["require"] = {match[1]: int(match[2])}
    if advice.startswith("--missing drop"):
        options["missing"] = "drop"
    if match := re.match(r"--suppress (\S+)", advice):
        options["suppress"] = match[1].rstrip(",")
    if advice.startswith("Relax the limits of --require"):
        options.pop("require", None)
    if advice.startswith("Publish only one"):
        return replace(run, path="elsewhere/release.csv")
    return replace(
        run,
        schema=edit_schema(run.schema, advice),
        options=options,
        escape=run.escape or advice.startswith("--escape-formulas"),
    )


RNG = np.random.default_rng(5)
AGES = np.arange(60) % 40 + 20
YES_NO = np.arange(60) % 2


def simple(quasi=("age",), confidential=(), k=5, **columns):
    roles = {name: columns.pop(name) for name in ("keep", "weight", "drop") if name in columns}
    options = columns.pop("options", {})
    person = columns.pop("person", ())
    schema = Schema(quasi=list(quasi), confidential=list(confidential), person=person, **roles)
    return Run({"age": AGES, **columns}, schema, {"k": k, **options})


def days(numbers):
    return (np.datetime64("2024-01-01") + np.asarray(numbers)).astype("datetime64[D]")


def with_gaps(dates, rows):
    out = dates.copy()
    out[rows] = np.datetime64("NaT")
    return out


def several_visits():
    birth = days(37 * (np.arange(60) // 2))
    who = np.array([f"P{row // 2}" for row in range(60)])
    schema = Schema(quasi=["birth"], confidential=["sick"], drop=["who"])
    return Run({"who": who, "birth": birth, "sick": YES_NO}, schema, {"k": 3})


def spellings():
    who = np.array([f"P{row}" for row in range(30)] + [f"p{row}" for row in range(30)])
    return simple(person="who", who=who)


def unify(run):
    return replace(run, table={**run.table, "who": np.char.upper(run.table["who"])})


def texts_as_numbers(run):
    numbers = np.array([float(text.strip("€ ").replace(",", "")) for text in run.table["fee"]])
    return replace(run, table={**run.table, "fee": numbers})


def stays():
    """Short stays with gaps in both dates, so that cells average different people."""
    first = RNG.integers(0, 300, 60)
    table = {
        "admission": with_gaps(days(first), RNG.random(60) < 0.3),
        "discharge": with_gaps(days(first + RNG.integers(0, 5, 60)), RNG.random(60) < 0.4),
    }
    return Run(table, Schema(quasi=list(table)), {"k": 5, "missing": "impute"})


def lengths():
    """Lengths of stay whose averages are rounded on their own."""
    first, stay = RNG.integers(0, 300, 60), RNG.integers(0, 20, 60)
    table = {"admission": days(first), "discharge": days(first + stay), "stay": stay}
    return Run(table, Schema(quasi=list(table)), {"k": 4})


def broken_total():
    a, b = RNG.integers(0, 50, 40), RNG.integers(0, 50, 40)
    table = {"a": a, "b": b, "total": a + b}
    schema = Schema(quasi=["a", "b", Column("total", sum_of=("a", "b"))])
    audited = {name: column // 9 * 9 for name, column in table.items()}
    return Run(table, schema, audited=audited)


def publish_as_means(run):
    release = mc.anonymize(run.table, run.schema, k=4, method="mdav")
    return replace(run, audited=release.table)


def towns(n=60):
    """Six towns 50 km apart, and more about the people than where they live."""
    home = Column("home", kind="location", latitude="lat", longitude="lon")
    traits = {f"x{i}": RNG.normal(0, 1, n) for i in range(6)}
    table = {
        "lat": 41.0 + 0.5 * (np.arange(n) % 6) + RNG.normal(0, 0.01, n),
        "lon": 1.0 + RNG.normal(0, 0.01, n),
        **traits,
    }
    return Run(table, Schema(quasi=[home, *traits]), {"k": 5})


def few_of_a_group(few=24, n=240):
    group = np.array(["most"] * (n - few) + ["few"] * few)
    table = {"group": group, **{f"x{i}": RNG.normal(0, 1, n) for i in range(3)}}
    return Run(table, Schema(quasi=list(table)), {"k": 20})


def noise(n=60, columns=6):
    table = {f"x{i}": RNG.normal(0, 1, n) for i in range(columns)}
    return Run(table, Schema(quasi=list(table)), {"k": 25})


def unequal_weights():
    run = simple(weight="w", w=np.where(np.arange(60) % 6, 1.0, 40.0))
    return replace(run, schema=replace(run.schema, dominance=(1, 1.0)))


INCOMES = RNG.normal(50_000, 9_000, 60).round(2)
FEES = np.array([f"€ {1_000 + 37 * row:,}" for row in range(60)])

CASES = {
    "risk.homogeneous_classes": [simple(confidential=["sick"], sick=AGES // 30)],
    "risk.exact_values": [
        simple(confidential=["income"], income=INCOMES),
        simple(confidential=["seen"], seen=days(np.arange(60))),
    ],
    "risk.singled_out": [
        simple(keep=["x"], x=np.arange(60)),
        simple(weight="w", w=np.linspace(1, 2, 60)),
        simple(keep=["a", "b", "c"], a=YES_NO, b=np.arange(60) % 7, c=np.arange(60) // 15),
        simple(confidential=["note"], note=np.array([f"note {row}" for row in range(60)])),
    ],
    "risk.alone_in_class": [
        simple(keep=["town", "month"], town=np.arange(60) % 8, month=np.arange(60) // 9)
    ],
    "risk.lone_values": [
        simple(
            quasi=("age", "x"),
            x=np.arange(60.0),
            age=np.where(np.arange(60) % 5, np.nan, AGES.astype(float)),
            options={"missing": "impute"},
        )
    ],
    "risk.persons_repeat": [several_visits()],
    "risk.persons_spelling": [spellings()],
    "risk.earlier_release": [simple(confidential=["sick"], sick=YES_NO)],
    "file.formulas": [simple(keep=["x"], x=np.array(["=1+1", "-a"])[YES_NO])],
    "utility.k_too_large": [simple(k=40)],
    "utility.one_class": [
        simple(confidential=["sick"], sick=AGES, options={"require": {"t_closeness": 0.01}})
    ],
    "utility.information_loss": [noise()],
    "utility.imputed": [
        simple(
            age=np.where(np.arange(60) % 4, AGES.astype(float), np.nan),
            options={"missing": "impute"},
        )
    ],
    "utility.category_lost": [few_of_a_group()],
    "utility.records_left_out": [simple(options={"suppress": 0.1})],
    "utility.location_moved": [towns()],
    "utility.dominated_cells": [unequal_weights()],
    "data.amounts_as_text": [simple(keep=["fee"], fee=FEES)],
    "rows.out_of_order": [stays()],
    "rows.difference_broken": [lengths()],
    "rows.sum_broken": [broken_total()],
}

BY_HAND = {
    "risk.persons_spelling": unify,
    "data.amounts_as_text": texts_as_numbers,
    "rows.sum_broken": publish_as_means,
}
"""What the advice asks for outside of the schema and the options."""

ROUNDS = 4
"""Some advice names a step, such as half of k: it is followed as often as it is given."""


def find(run, folder, code):
    return [item for item in run.findings(folder) if item.code == code]


@pytest.mark.parametrize("code", sorted(rules()))
def test_following_the_advice_removes_the_finding(code, tmp_path):
    for number, careless in enumerate(CASES[code]):
        folder = tmp_path / str(number)
        (folder / "elsewhere").mkdir(parents=True)
        if code == "risk.earlier_release":
            earlier = mc.anonymize(careless.table, careless.schema, k=4, method="mdav")
            earlier.publish(folder / "earlier.csv")
        run, found = careless, find(careless, folder, code)
        assert found
        assert all(item.advice for item in found)
        for _ in range(ROUNDS):
            run = BY_HAND[code](run) if code in BY_HAND else follow(run, found[0])
            found = find(run, folder, code)
            if not found:
                break
        assert not found


def test_every_code_has_a_case():
    assert CASES.keys() == rules().keys()


# ------------------------------------------------------------------- what advice cannot remove


def test_categories_of_fewer_than_k_people_can_only_be_combined(tmp_path):
    run = few_of_a_group(few=10)
    (found,) = find(run, tmp_path, "utility.category_lost")
    assert found.severity == "note"
    assert found.figures["below_k"] == 1
    assert 'role = "drop"' in found.advice
    combined = replace(run, table={**run.table, "group": np.full(240, "anyone")})
    assert not find(combined, tmp_path, "utility.category_lost")


def test_a_constant_confidential_column_stays_a_note_until_it_is_dropped(tmp_path):
    run = simple(confidential=["sick"], sick=np.ones(60, dtype=int))
    (found,) = find(run, tmp_path, "risk.homogeneous_classes")
    assert found.severity == "note"
    assert not find(follow(run, found), tmp_path, "risk.homogeneous_classes")


def test_rows_that_are_people_can_be_stated_but_not_proved(tmp_path):
    run = several_visits()
    stated = replace(run, schema=replace(run.schema, rows_are_people=True))
    (found,) = find(stated, tmp_path, "risk.persons_repeat")
    assert found.severity == "warning"
    assert "cannot confirm it" in found.advice


def test_people_who_live_far_from_each_other_stay_far(tmp_path):
    run = towns(n=60)
    lonely = {**run.table, "lat": np.linspace(-60, 60, 60)}
    careless = replace(run, table=lonely)
    (found,) = find(careless, tmp_path, "utility.location_moved")
    assert "no weight" in found.advice
    heavy = replace(careless, schema=edit_schema(run.schema, "[columns.home] weight = 1000"))
    assert find(heavy, tmp_path, "utility.location_moved")
