"""Every measure has a place, a name and a definition."""

import re
from pathlib import Path

import pytest

import microcell as mc
from microcell.measures.glossary import GLOSSARY, GROUPS, base_of, grouped, label_of
from microcell.report.headlines import headlines
from tests.report.examples import example, full, measure

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def documented():
    """The measures in the tables of the reference, by the part of their name before the point."""
    section = REFERENCE.partition("\n## Measures\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    return {base_of(name) for cell in cells for name in re.findall(r"`([^`]*)`", cell)}


def written_in_code():
    """The names that the audit's own code gives to measures, as far as they stand there in full."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in (ROOT / "src" / "microcell" / "auditing").glob("*.py")
    ]
    return {name for text in texts for name in re.findall(r'\bMeasure\(\s*"([a-z_0-9]+)"', text)}


def test_every_measure_of_the_audit_is_defined():
    people, schema = mc.sample_survey(60), mc.sample_schema()
    release = mc.anonymize(people, schema, k=5, method="mdav")
    found = mc.audit(people, release.table, schema, manifest=release.manifest)
    assert {base_of(name) for name in found.measures} <= set(GLOSSARY)


def test_every_measure_that_the_code_names_is_defined():
    assert len(written_in_code()) > 5
    assert written_in_code() <= set(GLOSSARY)


def test_the_glossary_and_the_reference_speak_of_the_same_measures():
    assert documented() == set(GLOSSARY)


def test_entries_are_whole():
    for entry in GLOSSARY.values():
        assert entry.group in GROUPS
        assert entry.label
        assert entry.definition.endswith(".")
    labels = [entry.label for entry in GLOSSARY.values()]
    assert len(labels) == len(set(labels))


def test_no_measure_is_lost_in_groups():
    audit = full()
    groups = grouped(audit)
    names = [item.name for group in groups for item in (*group.overall, *group.by_column)]
    assert sorted(names) == sorted(audit.measures)
    assert [group.key for group in groups] == [*GROUPS]
    assert [item.name for item in groups[-1].overall] == ["novelty"]
    assert all("." in item.name for group in groups for item in group.by_column)


def test_columns_with_points_in_their_names():
    assert base_of("distortion.a.b") == "distortion"
    assert label_of("distortion.a.b") == "Information lost of a.b"


@pytest.mark.parametrize(
    "value, unit, words",
    [(1, "values", "1 value"), (0.2, "share", "20 %"), (3, "records", "3 records")],
)
def test_headlines_at_a_glance(value, unit, words):
    audit = example()
    audit = type(audit)(
        **{**vars(audit), "measures": {"l_diversity": measure("l_diversity", value, unit)}}
    )
    assert headlines(audit)["Risk"][0].amount == words


def test_headlines_of_nothing():
    audit = example()
    assert headlines(type(audit)(**{**vars(audit), "measures": {}})) == {"Risk": (), "Utility": ()}
