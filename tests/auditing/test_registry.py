"""The registry of measures: every measure is declared, documented and reachable by its name."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import microcell as mc
from microcell.measures.registry import (
    SECTIONS,
    base_name,
    find,
    label,
    lower_is_better,
    measures,
    requirable,
)
from microcell.report.contents import arrange, headlines
from tests.report.examples import example, full, measure

REFERENCE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")


def documented():
    """The measures in the table of the reference."""
    section = REFERENCE.partition("\n## Measures\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    return {base_name(name) for cell in cells for name in re.findall(r"`([^`]*)`", cell)}


@pytest.fixture(scope="module")
def audit():
    people, schema = mc.sample_survey(60), mc.sample_schema()
    release = mc.anonymize(people, schema, k=5, method="mdav")
    return mc.audit(people, release.table, schema, manifest=release.manifest, population=1000)


def test_an_audit_has_every_declared_measure(audit):
    names = {base_name(name) for name in audit.measures}
    assert names == {name for name, item in measures().items() if item.needs != "target"}


def test_measures_have_columns_as_declared(audit):
    by_column = {base_name(name) for name in audit.measures if "." in name}
    assert by_column == {name for name, item in measures().items() if item.scope != "table"}


def test_every_measure_is_in_the_reference():
    assert documented() == set(measures())


def test_declarations_are_complete():
    for item in measures().values():
        assert item.section in SECTIONS
        assert item.label
        assert item.unit
        assert item.meaning.endswith(".")
        assert item.headline is None or item.headline.endswith(".")
        assert not (item.must_be_zero and not item.lower_is_better)
    labels = [item.label for item in measures().values()]
    assert len(labels) == len(set(labels))


def test_measures_are_in_the_order_of_the_sections():
    sections = list(dict.fromkeys(item.section for item in measures().values()))
    assert sections == [key for key in SECTIONS if key != "other"]


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("k", "k"),
        ("t_closeness.income", "t_closeness"),
        ("information_loss.a.b", "information_loss"),
        ("k.income", None),
        ("t_closeness.", None),
        ("novelty", None),
        ("", None),
    ],
)
def test_names_are_resolved(name, base):
    definition = find(name)
    assert (None if definition is None else definition.name) == base


def test_measures_that_need_more_than_a_release_cannot_be_required():
    assert {name for name, item in measures().items() if name not in requirable()} == {
        *("journalist_worst", "journalist_average", "manifest_contradictions"),
        *("task_released", "task_original", "task_baseline", "task_loss"),
    }
    assert lower_is_better("k") is False
    assert lower_is_better("information_loss.age") is True
    assert lower_is_better("journalist_worst") is lower_is_better("novelty") is None


def test_labels():
    assert label("information_loss") == "Information loss"
    assert label("information_loss.a.b") == "Information loss of a.b"
    assert label("novelty") == "novelty"


def test_names_can_be_checked_without_compiled_code():
    """The command line checks the names of requirements before it loads anything heavy."""
    code = (
        "import sys; from microcell.measures import registry; assert 'numpy' not in sys.modules;"
        "assert registry.find('t_closeness.income').lower_is_better;"
        "sys.exit(bool({'numba', 'scipy', 'polars', 'sklearn'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_measure_is_lost_when_arranged_in_sections():
    audit = full()
    sections = arrange(audit)
    names = [item.name for section in sections for item in (*section.overall, *section.by_column)]
    assert sorted(names) == sorted(audit.measures)
    assert [section.key for section in sections] == [*SECTIONS]
    assert [item.name for item in sections[-1].overall] == ["novelty"]
    assert all("." in item.name for section in sections for item in section.by_column)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1, "values", "1 value"), (0.2, "share", "20 %"), (3, "records", "3 records")],
)
def test_headlines_are_short(value, unit, text):
    audit = example()
    measured = {"l_diversity": measure("l_diversity", value, unit)}
    audit = type(audit)(**{**vars(audit), "measures": measured})
    assert headlines(audit)["Risk"][0].value == text


def test_headlines_without_measures():
    audit = example()
    assert headlines(type(audit)(**{**vars(audit), "measures": {}})) == {"Risk": (), "Utility": ()}
