"""Displays of public records are short and contain no value of the table."""

import dataclasses
import inspect

import numpy as np
import polars as pl
import pytest

import microcell as mc
from microcell import tables
from microcell.model import Table

SECRET = "S3CR3T"
NUMBER = 87_654_321.5
LONGEST = 300
PLAIN = (
    "Audit",
    "CellSummary",
    "CheckFinding",
    "Client",
    "EffectiveAnonymity",
    "Estimate",
    "ExportSummary",
    "ImportSummary",
    "Increment",
    "Measure",
    "Method",
    "Overview",
    "Place",
    "Schedule",
    "Session",
    "Simulation",
    "Status",
    "StoredSession",
    "SurveySize",
)
"""Classes whose default ``repr`` is fine: settings, counts, measures and published locations."""


def table_with_secrets(n=60):
    rng = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "name": [f"{SECRET}{i}" for i in range(n)],
            "age": rng.integers(18, 90, n),
            "income": np.where(np.arange(n) == 7, NUMBER, rng.normal(30_000, 5_000, n).round(1)),
            "town": [f"{SECRET} town" if i % 2 else "other" for i in range(n)],
        }
    )


SCHEMA = mc.Schema(
    identifiers=["name"],
    quasi=["age", "income", mc.Column("town", kind="ordinal", order=["other", f"{SECRET} town"])],
)


def is_safe(record):
    texts = [repr(record), str(record)]
    if hasattr(record, "_repr_html_"):
        texts.append(record._repr_html_())
    assert len(repr(record)) <= LONGEST, repr(record)[:500]
    return not any(SECRET in text or "87654321" in text or "87,654,321" in text for text in texts)


@pytest.fixture(scope="module")
def release():
    return mc.anonymize(table_with_secrets(), SCHEMA, k=5, method="mdav", cells=True)


def records_of(value, depth=3):
    """Yield the records of microcell that are reachable from a value."""
    if depth == 0:
        return
    if type(value).__module__.startswith("microcell"):
        yield value
        names = (
            [field.name for field in dataclasses.fields(value)]
            if dataclasses.is_dataclass(value)
            else list(getattr(type(value), "model_fields", ()))
        )
        for name in names:
            yield from records_of(getattr(value, name), depth - 1)
    elif isinstance(value, (tuple, list)):
        for item in value[:3]:
            yield from records_of(item, depth - 1)
    elif isinstance(value, dict):
        for item in list(value.values())[:3]:
            yield from records_of(item, depth - 1)


def test_displays_of_a_release_show_no_value(release):
    seen = {type(record).__name__ for record in records_of(release) if is_safe(record)}
    assert {"Release", "Partition", "Manifest", "Schema", "Table", "PowerCells"} <= seen
    assert {type(record).__name__ for record in records_of(release)} == seen


@pytest.mark.parametrize("kind", ["balls", "lookup"])
def test_displays_of_cells_show_no_value(kind):
    cells = mc.anonymize(table_with_secrets(), SCHEMA, k=5, method="mdav", cells=kind).cells
    assert is_safe(cells)
    assigned = mc.assign(cells, table_with_secrets())
    assert is_safe(assigned)


def test_displays_of_tables_inspections_and_comparisons_show_no_value(tmp_path):
    path = tmp_path / "people.csv"
    table_with_secrets().write_csv(path)
    table = mc.read(path)
    assert isinstance(table, Table)
    for record in (table, table.columns["name"], mc.inspect(table), SCHEMA, *SCHEMA.quasi):
        assert is_safe(record)
    for trial in mc.compare(table, SCHEMA, k=[5], methods=["mdav"]):
        assert is_safe(trial)
    assert tables.read(table) is table


def test_the_display_of_a_release_states_guarantee_and_next_steps(release):
    assert repr(release).startswith("<Release 60 records, k=5, cells=")
    page = release._repr_html_()
    for text in ("5-anonymous", "Information loss", "release.publish"):
        assert text in page
    assert len(page) < 3_000


def public_classes():
    modules = [getattr(mc, name) for name in mc.__all__]
    modules = [mc, *(module for module in modules if inspect.ismodule(module))]
    names = {
        getattr(module, name)
        for module in modules
        for name in getattr(module, "__all__", ())
        if inspect.isclass(getattr(module, name))
    }
    return sorted(
        (item for item in names if not issubclass(item, BaseException)),
        key=lambda item: item.__name__,
    )


@pytest.mark.parametrize("record", public_classes(), ids=lambda record: record.__name__)
def test_every_public_class_has_a_safe_display(record):
    """The generated ``repr`` of a dataclass prints all that it holds."""
    generated = hasattr(record.__repr__, "__wrapped__")
    assert not generated or record.__name__ in PLAIN


def test_a_plan_lists_its_alternatives_and_has_a_card():
    plan = mc.increments.plan(10_000, collection=3600, whole=600, strategy="separate")
    assert list(plan.to_frame()["nu"]) == [schedule.nu for schedule in plan.alternatives]
    assert "plan.to_frame()" in plan._repr_html_()


def test_the_card_of_a_schema_lists_columns_by_role():
    card = mc.Schema(identifiers=["name"], quasi=["age"], confidential=["pay"])._repr_html_()
    assert all(f">{column}</td>" in card for column in ("name", "age", "pay"))
