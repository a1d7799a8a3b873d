"""Each finding: when it is raised, how severe it is, and that its advice removes it."""

import datetime
import json
import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import microcell as mc
from microcell.auditing import audit, examine
from microcell.errors import GuaranteeError, SchemaError
from microcell.findings import rules
from microcell.findings.singling_out import Uniqueness, _hash, count_alone
from microcell.model import Column, Finding, Schema, Values
from microcell.model.findings import SEVERITIES, check_strictly, sort_findings
from tests.raising import raises
from tests.small_tables import table

AGE = Column("age", kind="numeric")
SEX = Column("sex", kind="nominal")


def find(before, after, schema, **options):
    """The findings by code; the rows of both tables are in the same order."""
    pairs = options.pop("pairs", np.arange(after.rows))
    findings = examine(before, after, schema, pairs=pairs, **options)
    return {item.code: item for item in findings}


def pairwise(n=40):
    """Ages before, and their means over pairs, which lose nearly nothing."""
    return list(range(n)), [row // 2 * 2 for row in range(n)]


def one_column(name, items, role, after_items=None, **schema):
    """A table of pairs of equal ages with one more column."""
    ages, means = pairwise(len(items))
    before = table(age=ages, **{name: items})
    after = table(age=means, **{name: after_items or items})
    return find(before, after, Schema(quasi=[AGE], **{role: [name]}, **schema))


# ----------------------------------------------------------------------------------- the record


def test_findings_are_sorted_by_severity_and_keep_values_to_themselves():
    items = [Finding(level, "a", "x", details=("Ada",)) for level in reversed(SEVERITIES)]
    assert [item.severity for item in sort_findings(items)] == list(SEVERITIES)
    assert "Ada" not in repr(items[0]) + str(items[0]) + items[0]._repr_html_()
    assert items[0].public().details == ()
    assert items[0].public("Title.").sentence == "Title."


def test_strict_refuses_warnings_and_dangers_but_not_notes():
    check_strictly([Finding("note", "a", "x")])
    for severity in ("danger", "warning"):
        with raises(GuaranteeError, "guarantee.findings", findings=["a"]):
            check_strictly([Finding(severity, "a", "x")])
    with pytest.raises(GuaranteeError, match=r"Danger: One class\. Do: Lower k\. \[a\]"):
        check_strictly([Finding("danger", "a", "One class.", "Lower k")])


def test_every_rule_is_complete():
    for code, rule in rules().items():
        assert rule.code == code
        assert all((rule.title, rule.meaning, rule.advice))
        assert not rule.title.endswith(".")


# ----------------------------------------------------------------------------------- disclosure


def test_homogeneous_classes():
    found = one_column("grade", [1, 1, 2, 2, 1, 2], "confidential")["risk.homogeneous_classes"]
    assert (found.severity, found.columns) == ("danger", ("grade",))
    assert found.figures == {"people": 4, "classes": 2}
    assert "--require homogeneous_records.grade=0" in found.advice
    assert "risk.homogeneous_classes" not in one_column("grade", [1, 2] * 3, "confidential")


def test_a_constant_confidential_column_is_only_a_note():
    found = one_column("grade", [1] * 6, "confidential")["risk.homogeneous_classes"]
    assert found.severity == "note"
    assert 'role = "drop"' in found.advice


def test_people_in_homogeneous_classes_are_counted_once():
    persons = ["a", "a", "b", "b", "a", "b"]
    before = table(age=[1, 1, 1, 2, 2, 2], grade=[1, 1, 1, 2, 2, 2], who=persons)
    after = table(age=[1, 1, 1, 2, 2, 2], grade=[1, 1, 1, 2, 2, 2])
    schema = Schema(quasi=[AGE], confidential=["grade"], person="who")
    assert find(before, after, schema)["risk.homogeneous_classes"].figures["people"] == 2
    measured = audit(before, after, schema, pairs=np.arange(6))["homogeneous_records"]
    assert measured == 2


def test_exact_confidential_numbers_and_their_rounding():
    rng = np.random.default_rng(0)
    incomes = rng.normal(50_000, 10_000, 400).round(2)
    people = {"age": rng.integers(20, 80, 400), "income": incomes}
    schema = Schema(quasi=["age"], confidential=["income"])
    release = mc.anonymize(people, schema, k=5, method="mdav")
    found = {item.code: item for item in release.findings}["risk.exact_values"]
    assert found.severity == "warning"
    assert found.figures["people"] == 400
    step = float(found.advice.split("round = ")[1].split(",")[0])
    rounded = replace(schema, confidential=[Column("income", round=step)])
    better = mc.anonymize(people, rounded, k=5, method="mdav")
    assert "risk.exact_values" not in {item.code for item in better.findings}
    published = np.asarray(better.table["income"])
    assert np.allclose(published % step, 0)
    assert np.abs(published - incomes).max() <= step / 2 + 1e-9
    assert mc.audit(people, better.table, rounded)["values_changed"] == 0
    assert mc.audit(people, better.table, schema)["values_changed"] == 400


# ----------------------------------------------------------------------------------- singling out


@pytest.mark.parametrize("role", ["keep", "weight"])
def test_columns_published_unchanged_that_single_people_out(role):
    ages, means = pairwise(40)
    before, after = table(age=ages, x=list(range(40))), table(age=means, x=list(range(40)))
    names = "x" if role == "weight" else ["x"]
    found = find(before, after, Schema(quasi=[AGE], **{role: names}))["risk.singled_out"]
    assert (found.severity, found.figures["people"]) == ("danger", 40)
    assert found.advice == '[columns.x] role = "quasi", or role = "drop"'


def test_combinations_of_three_columns():
    rows = [(a, b, c) for a in range(4) for b in range(4) for c in range(4)]
    columns = {name: [row[i] for row in rows] for i, name in enumerate("abc")}
    ages, means = pairwise(64)
    before, after = table(age=ages, **columns), table(age=means, **columns)
    found = find(before, after, Schema(quasi=[AGE], keep=list("abc")))["risk.singled_out"]
    assert found.columns == ("a", "b", "c")
    assert found.figures == {"people": 64, "share": 1.0}
    without = Schema(quasi=[AGE], keep=["a", "b"], drop=["c"])
    after = table(age=means, a=columns["a"], b=columns["b"])
    assert "risk.singled_out" not in find(before, after, without)


def test_severity_depends_on_the_share():
    items = [0] * 2000
    items[7] = 1
    found = one_column("x", items, "keep")["risk.singled_out"]
    assert (found.severity, found.figures["people"]) == ("note", 1)


def test_counting_people_who_are_alone():
    codes, present = np.array([0, 0, 1, 2, 2]), np.ones(5, dtype=bool)
    assert count_alone(codes, present, None).people == 1
    assert count_alone(codes, present, np.array([5, 5, 5, 6, 7])).people == 1
    assert count_alone(codes, present, np.array([5, 5, 6, 6, 6])).people == 2
    assert count_alone(codes, np.array([1, 1, 0, 1, 1], dtype=bool), None).people == 0


@pytest.mark.parametrize("rows_per_person", [1, 3])
def test_large_tables_are_sampled_with_an_interval(rows_per_person):
    rng = np.random.default_rng(1)
    n = 300_000
    numbers = rng.integers(1, 400_000, n)
    numbers[rng.random(n) < 0.5] = 0  # one value that dwarfs the others
    persons = np.arange(n) // rows_per_person
    exact = count_alone(numbers, np.ones(n, dtype=bool), persons)
    hashes = {"x": _hash(Values("integer", numbers, np.zeros(n, dtype=bool)))}
    result = Uniqueness(hashes, None if rows_per_person == 1 else persons).alone(("x",))
    low, high = result.interval
    assert low <= exact.share <= high
    assert high - low < 0.02
    assert abs(result.people - exact.people) < 0.01 * n


def test_the_advice_names_all_columns_that_must_be_protected():
    rng = np.random.default_rng(2)
    columns = {name: rng.integers(0, 9, 200).tolist() for name in "abcd"}
    columns["e"] = [0, 1] * 100
    ages, means = pairwise(200)
    before, after = table(age=ages, **columns), table(age=means, **columns)
    found = find(before, after, Schema(quasi=[AGE], keep=list("abcde")))["risk.singled_out"]
    assert len(found.columns) == 3
    protected = re.findall(r"\[columns\.(\w)\]", found.advice)
    assert {"a", "b", "c", "d"} > set(protected)
    left = [name for name in "abcde" if name not in protected]
    after = table(age=means, **{name: columns[name] for name in left})
    schema = Schema(quasi=[AGE], keep=left, drop=protected)
    assert "risk.singled_out" not in find(before, after, schema)


def test_names_in_a_confidential_text():
    names = [f"person {number}" for number in range(20)]
    assert one_column("x", names, "confidential")["risk.singled_out"].severity == "danger"
    assert "risk.singled_out" not in one_column("x", ["a", "b"] * 10, "confidential")


# ----------------------------------------------------------------------------------- people


def visits():
    births = [datetime.date(1950, 1, 1) + datetime.timedelta(days=37 * i) for i in range(30)]
    who = [row // 2 for row in range(60)]
    return {
        "patient": [f"P{i}" for i in who],
        "birth": [births[i] for i in who],
        "cost": [float(row % 7) for row in range(60)],
    }


@pytest.mark.parametrize("role", ["identifiers", "drop", "keep"])
def test_people_with_several_records_and_no_person_column(role):
    before = table(**visits())
    after = table(**{n: c for n, c in visits().items() if role == "keep" or n != "patient"})
    quasi = [Column("birth", kind="datetime")]
    schema = Schema(quasi=quasi, confidential=["cost"], **{role: ["patient"]})
    found = find(before, after, schema)["risk.persons_repeat"]
    assert (found.severity, found.columns) == ("danger", ("patient",))
    assert found.figures == {"distinct": 30, "records": 60}
    stated = find(before, after, replace(schema, rows_are_people=True))
    assert stated["risk.persons_repeat"].severity == "warning"
    named = Schema(quasi=quasi, confidential=["cost"], person="patient")
    after = table(birth=visits()["birth"], cost=visits()["cost"])
    assert "risk.persons_repeat" not in find(before, after, named)


def test_identifiers_that_repeat_beside_a_unique_one_are_fine():
    before = table(name=["a", "a", "b"], number=[1, 2, 3], age=[1, 2, 3])
    schema = Schema(quasi=[AGE], identifiers=["name", "number"])
    assert "risk.persons_repeat" not in find(before, table(age=[2, 2, 2]), schema)


def test_spellings_of_persons():
    before = table(who=["Ada", "ada ", "Bob"], age=[1, 2, 3])
    found = find(before, table(age=[2, 2, 2]), Schema(quasi=[AGE], person="who"))
    assert found["risk.persons_spelling"].figures == {"values": 1, "distinct": 3}
    assert "Ada" not in str(found["risk.persons_spelling"])


def test_formulas():
    found = one_column("note", ["=1+1", "b", "-5", "@x"], "keep")["file.formulas"]
    assert found.figures == {"values": 2}
    before = table(age=[1, 1], note=["=1", "=1"])
    schema = Schema(quasi=[AGE], keep=["note"])
    assert "file.formulas" not in find(before, before, schema, formulas_escaped=True)


def test_an_earlier_release_in_the_same_folder(tmp_path):
    people = {"age": list(range(40)), "sick": [0, 1] * 20}
    schema = Schema(quasi=["age"], confidential=["sick"])
    mc.anonymize(people, schema, k=4, method="mdav").publish(tmp_path / "one.csv")
    (tmp_path / "other.manifest.json").write_text("[1]")
    release = mc.anonymize(people, schema, k=5, method="mdav")
    codes = [item.code for item in release.examine(tmp_path / "two.csv")]
    assert "risk.earlier_release" in codes
    assert not release.examine(tmp_path / "one.csv")  # it replaces the earlier one
    with raises(GuaranteeError, "guarantee.findings"):
        release.publish(tmp_path / "two.csv", strict=True)
    assert not (tmp_path / "two.csv").exists()
    release.publish(tmp_path / "two.csv")
    found = mc.audit(people, tmp_path / "two.csv", schema).findings
    assert [item.code for item in found] == ["risk.earlier_release"]
    (tmp_path / "one.csv").unlink()
    (tmp_path / "one.csv.manifest.json").unlink()
    assert not mc.audit(people, tmp_path / "two.csv", schema).findings


def test_the_same_persons_in_another_table_are_recognized(tmp_path):
    who = [f"P{row // 2}" for row in range(40)]
    schema = Schema(quasi=["age"], confidential=["sick"], person="who")
    for name, shift in (("one", 0), ("two", 1)):
        people = {"who": who, "age": [row + shift for row in range(40)], "sick": [0, 1] * 20}
        release = mc.anonymize(people, schema, k=4, method="mdav")
        codes = {item.code for item in release.examine(tmp_path / f"{name}.csv")}
        assert ("risk.earlier_release" in codes) == (name == "two")
        release.publish(tmp_path / f"{name}.csv")
    manifest = json.loads((tmp_path / "one.csv.manifest.json").read_text())
    assert len(manifest["person"]["sha256"]) == 64


# ----------------------------------------------------------------------------------- quality


def test_one_cell_for_all():
    people = {"age": list(range(20)), "sick": [0, 1] * 10}
    schema = Schema(quasi=["age"], confidential=["sick"])
    large = mc.anonymize(people, schema, k=11, method="mdav")
    assert [item.code for item in large.findings] == ["utility.k_too_large"]
    assert large.findings[0].severity == "danger"
    smaller = int(large.findings[0].advice.split()[1])
    assert not mc.anonymize(people, schema, k=smaller, method="mdav").findings
    before, after = table(age=list(range(8))), table(age=[4] * 8)
    assert find(before, after, Schema(quasi=[AGE]))["utility.one_class"].severity == "danger"
    assert not find(after, after, Schema(quasi=[AGE]))


def test_information_loss_over_one_half():
    ages = [0, 100] * 10
    before, after = table(age=ages), table(age=[49] * 10 + [51] * 10)
    found = find(before, after, Schema(quasi=[AGE]))["utility.information_loss"]
    assert found.severity == "warning"
    assert found.figures["information_loss"] > 0.5
    ages, means = pairwise()
    assert not find(table(age=ages), table(age=means), Schema(quasi=[AGE]))


def test_imputed_values_and_what_is_still_missing():
    before = table(age=[1, None, None, 4, 5, 6], sex=["a", "a", "a", "b", "b", "b"])
    after = table(age=[1, 1, None, 5, 5, 5], sex=["a", "a", "a", "b", "b", "b"])
    found = find(before, after, Schema(quasi=[AGE, SEX]))["utility.imputed"]
    assert found.figures == {"imputed": 1, "still_missing": 1}
    assert found.severity == "warning"
    assert found.advice.startswith("--missing drop")


def test_categories_that_vanish_or_are_mostly_wrong():
    before = table(sex=["a"] * 10 + ["b"] * 4 + ["c"] * 5)
    after = table(sex=["a"] * 14 + ["c"] * 2 + ["a"] * 3)
    found = find(before, after, Schema(quasi=[SEX]), k=2)["utility.category_lost"]
    assert (found.severity, found.columns) == ("warning", ("sex",))
    assert (found.figures["vanished"], found.figures["mostly_wrong"]) == (1, 1)
    assert found.figures["people"] == 7
    assert found.details == ("c: 5 records, 40 % kept", "b: 4 records, 0 % kept")
    assert "weight = 4" in found.advice
    few = find(before, after, Schema(quasi=[SEX]), k=6)["utility.category_lost"]
    assert few.severity == "note"
    assert "cannot be kept" in few.advice


def test_locations_that_moved_far():
    home = Column("home", kind="location", latitude="lat", longitude="lon")
    before = table(lat=[40.0, 41.0, 50.0, 50.0], lon=[1.0, 1.0, 1.0, 1.0])
    after = table(lat=[40.5, 40.5, 50.0, 50.0], lon=[1.0, 1.0, 1.0, 1.0])
    found = find(before, after, Schema(quasi=[home]))["utility.location_moved"]
    assert found.figures["records"] == 2
    assert found.figures["p95_km"] == pytest.approx(55.6, abs=0.1)  # half a degree
    assert "utility.location_moved" not in find(before, before, Schema(quasi=[home]))
    together = table(lat=[45.0] * 4, lon=[1.0] * 4)  # No weight helps in a single class.
    assert "utility.location_moved" not in find(before, together, Schema(quasi=[home]))


def test_one_member_dominates_a_weighted_cell():
    before = table(age=[1, 2, 3, 7, 8, 9], w=[10.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    after = table(age=[1, 1, 1, 8, 8, 8], w=[10.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    free = Schema(quasi=[AGE], weight="w", dominance=(1, 1.0))
    found = find(before, after, free)["utility.dominated_cells"]
    assert found.figures["classes"] == 1
    assert found.figures["largest_share"] == pytest.approx(10 / 12)
    assert "utility.dominated_cells" not in find(before, after, replace(free, dominance=(1, 0.5)))


@pytest.mark.parametrize(
    "items, amounts",
    [
        (["1,200.50", "3,400.00", "900.10", "12.00"], True),
        (["€ 12", "€ 13", "€ 14", "€ 1.500"], True),
        (["12 %", "13 %", "14 %", "15 %"], True),
        (["08721", "08722", "25001", "43003"], False),
        (["a", "b", "c", "d"], False),
        (["K80", "C50", "C61", "E11"], False),
    ],
)
def test_amounts_stored_as_text(items, amounts):
    assert ("data.amounts_as_text" in one_column("x", items, "keep")) == amounts


# ----------------------------------------------------------------------------------- relations


def days(*numbers):
    start = datetime.date(2024, 1, 1)
    return [None if n is None else start + datetime.timedelta(days=n) for n in numbers]


ADMISSION = Column("admission", kind="datetime")
DISCHARGE = Column("discharge", kind="datetime")


def test_dates_out_of_order():
    firsts, lasts = list(range(0, 40, 2)), list(range(3, 43, 2))
    before = table(admission=days(*firsts), discharge=days(*lasts))
    wrong = table(admission=days(*firsts), discharge=days(*[0, 1, *lasts[2:]]))
    found = find(before, wrong, Schema(quasi=[ADMISSION, DISCHARGE]))["rows.out_of_order"]
    assert found.figures == {"records": 1}
    assert found.advice == '[columns.discharge] after = "admission"'
    right = find(before, before, Schema(quasi=[ADMISSION, DISCHARGE]))
    assert "rows.out_of_order" not in right


def test_differences_that_do_not_fit():
    firsts, lasts = list(range(0, 40, 2)), [n + 3 for n in range(0, 40, 2)]
    stays = [3] * 20
    before = table(admission=days(*firsts), discharge=days(*lasts), stay=stays)
    after = table(admission=days(*firsts), discharge=days(*lasts), stay=[4, *stays[1:]])
    quasi = [ADMISSION, DISCHARGE, Column("stay", kind="numeric")]
    found = find(before, after, Schema(quasi=quasi))["rows.difference_broken"]
    assert 'difference_of = ["discharge", "admission"]' in found.advice
    assert found.figures == {"records": 1}


def hospital(n=60, seed=0):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 300, n)
    stay = rng.integers(0, 20, n)
    start = np.datetime64("2024-01-01")
    admission = (start + first).astype("datetime64[D]")
    discharge = (start + first + stay).astype("datetime64[D]")
    discharge[rng.random(n) < 0.4] = np.datetime64("NaT")
    admission[rng.random(n) < 0.3] = np.datetime64("NaT")
    return {
        "admission": admission,
        "discharge": discharge,
        "stay": stay,
        "meals": 2 * stay,
        "total": 3 * stay,
        "sick": rng.integers(0, 2, n),
    }


def test_the_advice_on_order_removes_the_finding():
    people = hospital()
    names = ["admission", "discharge", "stay", "meals", "total"]
    careless = Schema(quasi=names, drop=["sick"])
    quasi = [
        "admission",
        Column("discharge", after="admission"),
        Column("stay", difference_of=("discharge", "admission")),
        "meals",
        "total",
    ]
    consistent = replace(careless, quasi=quasi)
    before = mc.anonymize(people, careless, k=3, method="mdav", missing="impute")
    after = mc.anonymize(people, consistent, k=3, method="mdav", missing="impute")
    assert "rows.out_of_order" in {item.code for item in before.findings}
    assert not {"rows.out_of_order", "rows.difference_broken"} & {
        item.code for item in after.findings
    }
    first, last = after.table["admission"], after.table["discharge"]
    known = ~(np.isnat(first) | np.isnat(last))
    gaps = (last - first)[known].astype("timedelta64[D]").astype(int)
    assert (gaps >= 0).all()
    assert np.array_equal(gaps, np.asarray(after.table["stay"])[known])
    assert after.partition.k >= 3


@pytest.mark.parametrize("dtype", [pl.String, pl.Null])
def test_a_sum_without_values_stays_empty(dtype):
    """Such a column may have the type of texts, as in files of Stata."""
    empty = pl.Series([None] * 4, dtype=dtype)
    people = pl.DataFrame({"a": [1, 2, 3, 4], "b": [5, 6, 7, 8], "sum": empty})
    schema = Schema(quasi=["a", "b", Column("sum", kind="numeric", sum_of=("a", "b"))])
    release = mc.anonymize(people, schema, k=2, method="mdav", missing="impute")
    assert release.table["sum"].null_count() == 4


def test_sums_are_published_consistently():
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 50, 40), rng.integers(0, 50, 40)
    people = {"a": a, "b": b, "total": a + b}
    plain = mc.anonymize(people, Schema(quasi=["a", "b", "total"]), k=3, method="mdav").table
    assert not np.array_equal(plain["a"] + plain["b"], plain["total"])
    schema = Schema(quasi=["a", "b", Column("total", sum_of=("a", "b"))])
    release = mc.anonymize(people, schema, k=3, method="mdav")
    assert np.array_equal(release.table["a"] + release.table["b"], release.table["total"])
    assert "rows.sum_broken" not in {item.code for item in release.findings}
    broken = table(a=[1, 2], b=[1, 2], total=[2, 5])
    numeric = [replace(column, kind="numeric") for column in schema.quasi]
    found = find(broken, broken, Schema(quasi=numeric))["rows.sum_broken"]
    assert found.figures == {"records": 1}


@pytest.mark.parametrize(
    "columns",
    [
        [Column("a", after="b")],
        [Column("a", after="b"), Column("b", after="a")],
        [Column("a", difference_of=("b", "c")), "b"],
        ["a", Column("b", sum_of=("a", "c")), Column("c", sum_of=("a", "b"))],
        [Column("a", round=2)],
    ],
)
def test_relations_must_name_other_quasi_identifiers(columns):
    with raises(SchemaError, "schema.invalid"):
        Schema(quasi=columns)


@pytest.mark.parametrize("relation", [{"sum_of": ("a", "b")}, {"after": "a"}])
@pytest.mark.parametrize(
    "a", [Column("a"), Column("a", "ordinal", order=["x", "y"]), Column("a", publish="range")]
)
def test_relations_must_name_columns_published_as_numbers(a, relation):
    """A cell has a category as the row of a record with it, which must not be published."""
    values = list(range(6)) if a.publish else ["x", "y"] * 3
    table = {"a": values, "b": list(range(6)), "z": list(range(6))}
    with raises(SchemaError, "schema.invalid", column="z"):
        mc.anonymize(table, Schema(quasi=[a, "b", Column("z", **relation)]), k=3)


@pytest.mark.parametrize(
    "options",
    [
        {"after": "a"},
        {"after": "b", "sum_of": ("b", "c")},
        {"difference_of": ("b",)},
        {"sum_of": ("b",)},
        {"after": "b", "kind": "nominal"},
        {"after": "b", "publish": "range"},
        {"round": 0},
        {"round": float("nan")},
    ],
)
def test_invalid_relations_of_a_column(options):
    with raises(SchemaError, "schema.invalid", column="a"):
        Column("a", **options)


def test_schema_files_keep_relations():
    schema = Schema(
        quasi=["a", Column("b", after="a"), Column("c", sum_of=("a", "b"))],
        confidential=[Column("x", round=0.5)],
    )
    text = mc.schema.schema_to_toml(schema)
    assert mc.schema.schema_from_toml(text) == schema


# ----------------------------------------------------------------------------------- audits


def test_the_audit_and_the_release_find_the_same():
    people, schema = mc.sample_survey(300), mc.sample_schema()
    release = mc.anonymize(people, schema, k=5, method="mdav")
    assert [item.code for item in release.findings] == [
        item.code for item in release.audit().findings
    ]
    assert release.audit().dangers
    assert pickle.loads(pickle.dumps(release)).findings == ()


def test_a_release_without_rows_has_no_findings():
    before, after = table(age=[1, 2]), table(age=[])
    assert audit(before, after, Schema(quasi=[AGE])).findings == ()


def test_every_finding_is_documented():
    docs = Path(__file__).parent.parent.parent / "docs"
    page = (docs / "explain" / "findings.md").read_text(encoding="utf-8")
    overview = (docs / "reference.md").read_text(encoding="utf-8")
    for code, rule in rules().items():
        assert f"### `{code}`\n\n**{rule.title}**" in page
        assert f"[`{code}`]" in overview
