"""Displays of public records are short and contain no value of the table."""

import dataclasses
import inspect
from collections.abc import Sequence
from typing import get_args, get_type_hints

import numpy as np
import polars as pl
import pytest

import microcell as mc
from microcell import tables
from microcell._display import MAX_ROWS, html_card, record_html, record_repr
from microcell.model import Table

SECRET = "S3CR3T"
NUMBER = 87_654_321.5
LONGEST = 300
PLAIN = ("Dialect", "Place")
"""Records whose generated ``repr`` is fine: a file's dialect and a published location."""


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


def public_objects():
    modules = [getattr(mc, name) for name in mc.__all__]
    modules = [mc, *(module for module in modules if inspect.ismodule(module))]
    return [getattr(module, name) for module in modules for name in module.__all__]


def annotated_types(item):
    """Return the types that a class stores or a function returns."""
    try:
        hints = get_type_hints(item)
    except NameError:  # imported for type checking only
        return []
    return list(hints.values()) if inspect.isclass(item) else [hints.get("return")]


def add_classes(annotation, classes):
    """Add the classes of microcell in an annotation, and those of their fields and results."""
    for part in get_args(annotation):
        add_classes(part, classes)
    if not inspect.isclass(annotation) or not annotation.__module__.startswith("microcell"):
        return
    if annotation in classes or issubclass(annotation, BaseException):
        return
    classes.add(annotation)
    members = [getattr(member, "fget", member) for member in list(vars(annotation).values())]
    for item in (annotation, *filter(inspect.isfunction, members)):
        for part in annotated_types(item):
            add_classes(part, classes)


def reachable_classes():
    """Return all public classes, and those of the records that public functions return."""
    classes = set()
    for item in public_objects():
        if inspect.isclass(item):
            add_classes(item, classes)
        elif inspect.isfunction(item):
            add_classes(annotated_types(item)[0] if annotated_types(item) else None, classes)
    return sorted(classes, key=lambda item: item.__name__)


@pytest.mark.parametrize("record", reachable_classes(), ids=lambda record: record.__name__)
def test_every_reachable_record_has_a_safe_display(record):
    """The generated ``repr`` of a dataclass prints all that it holds."""
    generated = hasattr(record.__repr__, "__wrapped__")
    assert not generated or record.__name__ in PLAIN


def poisoned(kind):
    """Return a record of this class whose fields hold secrets, or long texts if they are names."""
    record = object.__new__(kind)
    secrets = (np.full((50, 3), NUMBER), (SECRET,) * 99, {SECRET: SECRET}, [SECRET] * 99)
    for place, field in enumerate(dataclasses.fields(kind)):
        text = field.type in ("str", "str | None", str, str | None)
        value = "a long name " * 99 if text else secrets[place % len(secrets)]
        object.__setattr__(record, field.name, value)
    return record


@pytest.mark.parametrize(
    "kind",
    [kind for kind in reachable_classes() if kind.__repr__ is record_repr],
    ids=lambda kind: kind.__name__,
)
def test_records_display_sizes_instead_of_values(kind):
    record = poisoned(kind)
    texts = [repr(record)]
    if getattr(kind, "_repr_html_", None) is record_html:
        texts.append(record._repr_html_())
    assert len(texts[0]) <= LONGEST
    assert not any(value in text for value in (SECRET, "87654321", "8.765e+07") for text in texts)


def public_records():
    """Return the public classes with data, and the classes of what public functions return."""
    classes = set()
    for item in public_objects():
        if inspect.isclass(item):
            classes.add(item)
        elif inspect.isfunction(item):
            for annotation in annotated_types(item):
                parts = (annotation, *get_args(annotation))
                classes |= {part for part in parts if inspect.isclass(part)}
    records = [
        item
        for item in classes
        if item.__module__.startswith("microcell")
        and not issubclass(item, BaseException)
        and item.__repr__ is not object.__repr__
    ]
    return sorted(records, key=lambda item: (item.__name__, item.__module__))


@pytest.mark.parametrize("record", public_records(), ids=lambda record: record.__name__)
def test_every_public_record_has_a_card(record):
    assert callable(getattr(record, "_repr_html_", None))


@pytest.mark.parametrize(
    "record",
    [record for record in public_records() if issubclass(record, Sequence)],
    ids=lambda record: record.__name__,
)
def test_every_public_list_of_results_becomes_a_frame(record):
    assert callable(getattr(record, "to_frame", None))


def test_cards_fit_on_one_screen():
    card = html_card(
        "title", {f"row {i}": "x" * 5_000 for i in range(100)}, notes=["y" * 5_000] * 9
    )
    assert card.count("<tr>") == MAX_ROWS + 1
    assert f"and {100 - MAX_ROWS} more" in card
    assert len(card) < 10_000


@pytest.fixture(scope="module")
def hand_written_cards(release, tmp_path_factory):
    """Records with a card of their own, made from the table with secrets."""
    table = table_with_secrets()
    folder = tmp_path_factory.mktemp("sessions") / "stored"
    stored = mc.increments.StoredSession.create(folder, table, SCHEMA, 5, method="mdav")
    design = mc.surveys.design(table, SCHEMA, 3, 0.9, 0.01, method="mdav")
    inspection = mc.inspect(table)
    assert list(inspection.to_frame()["name"]) == table.columns
    return [
        inspection,
        mc.assign(release.cells, table),
        release.audit(),
        release.cells,
        release.manifest,
        mc.read(table),
        mc.increments.start(table, SCHEMA, 5, method="mdav"),
        stored,
        stored.status(),
        design,
        mc.surveys.check(design.cells),
        mc.surveys.simulate_participation([0.9] * 10, 3, trials=10),
        mc.locations.Anonymizer.open("sqlite://", k=2, key=None, background=False),
    ]


def test_cards_written_by_hand_show_no_value(hand_written_cards):
    for record in hand_written_cards:
        assert is_safe(record), type(record)
        assert len(record._repr_html_()) < 5_000


def test_a_plan_lists_its_alternatives_and_has_a_card():
    plan = mc.increments.plan(10_000, collection=3600, whole=600, strategy="separate")
    assert list(plan.to_frame()["nu"]) == [schedule.nu for schedule in plan.alternatives]
    assert "plan.to_frame()" in plan._repr_html_()


def test_the_card_of_a_schema_lists_columns_by_role():
    card = mc.Schema(identifiers=["name"], quasi=["age"], confidential=["pay"])._repr_html_()
    assert all(f">{column}</td>" in card for column in ("name", "age", "pay"))
