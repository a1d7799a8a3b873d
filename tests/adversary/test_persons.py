"""Attacks through several rows per person and missing values: one member who outweighs a cell."""

import numpy as np
import pytest

import microcell as mc

# Person a has forty rows with age 31; b and c have one row each.
VISITS = {"who": ["a"] * 40 + ["b", "c"], "age": [31.0] * 40 + [47.0, 23.0]}


def visits(*others):
    """Return the visits of a, b and c, and three visits of other persons around age 80."""
    names = [*VISITS["who"], "d", "e", "f"]
    return {"who": names, "age": [*VISITS["age"], 78.0, 80.0, 85.0]}


def release(table, k=3, **schema):
    quasi = schema.pop("quasi", ["age"])
    return mc.anonymize(table, mc.Schema(person="who", quasi=quasi, **schema), k=k, method="mdav")


@pytest.mark.parametrize("publish", ["mean", "median"])
def test_a_person_with_most_of_the_rows_is_not_published(publish):
    column = mc.Column("age", publish=publish)
    published = set(release(VISITS, quasi=[column]).table["age"])
    # The rows of a count as much as those of the others together: (2 * 31 + 47 + 23) / 4.
    assert published == ({33.0} if publish == "mean" else {31.0})
    if publish == "mean":
        loose = release(VISITS, quasi=[column], dominance=(1, 1.0)).table["age"]
        assert np.abs(loose - 31).max() < 0.5


def test_the_manifest_counts_capped_cells_and_a_loose_rule_is_a_finding():
    capped = release(visits())
    assert (capped.manifest.dominance.n, capped.manifest.dominance.p) == (1, 0.5)
    assert capped.manifest.dominance.cells_capped == 1
    assert "utility.dominated_cells" not in {item.code for item in capped.findings}
    loose = release(visits(), dominance=(1, 1.0))
    assert loose.manifest.dominance.cells_capped == 0
    finding = next(item for item in loose.findings if item.code == "utility.dominated_cells")
    assert finding.figures["classes"] == 1
    assert finding.figures["largest_share"] == pytest.approx(40 / 42)


def test_a_rule_that_no_cell_can_meet_is_rejected():
    with pytest.raises(mc.errors.OptionError) as caught:
        release(visits(), dominance=(2, 0.5))
    assert caught.value.code == "option.out_of_range"


def test_weights_of_a_persons_rows_are_capped_together():
    """Each row alone would have a small share of the weight."""
    table = {**VISITS, "w": np.ones(42)}
    assert set(release(table, weight="w").table["age"]) == {33.0}


@pytest.mark.parametrize("kind", ["power", "balls"])
def test_no_site_of_the_cells_file_is_the_mean_of_one_person(kind):
    table = visits()

    def lowest_site(rule):
        schema = mc.Schema(person="who", quasi=["age"], dominance=rule)
        made = mc.anonymize(table, schema, k=3, method="mdav", cells=kind)
        labels, who = made.partition.labels, np.array(table["who"])
        assert min(len(set(who[labels == cell])) for cell in (0, 1)) == 3
        column = made.cells.encoding.columns[0]
        return made.cells.centroids[:, 0].min() * column.scale[0]

    # The capped mean is 33, that of all rows 31.2; both are blurred alike.
    assert lowest_site((1, 0.5)) - lowest_site((1, 1.0)) > 1


def test_a_missing_value_does_not_lift_the_limit():
    table = {"who": [*VISITS["who"], "x"], "age": [*VISITS["age"], np.nan]}
    schema = mc.Schema(person="who", quasi=["age"])
    made = mc.anonymize(table, schema, k=4, method="mdav", missing="impute")
    assert set(made.table["age"]) == {33.0}


# ------------------------------------------------------------------------------------- one value


def test_the_only_value_of_a_class_is_a_finding():
    table = {"age": [31.0, np.nan, np.nan, 60.0, 70.0, 80.0], "sex": [0, 0, 0, 9, 9, 9]}
    schema = mc.Schema(quasi=["age", "sex"])
    made = mc.anonymize(table, schema, k=3, method="mdav", missing="impute")
    assert made.table["age"].tolist()[:3] == [31.0] * 3
    finding = next(item for item in made.findings if item.code == "risk.lone_values")
    assert (finding.severity, finding.columns, finding.figures["values"]) == (
        "warning",
        ("age",),
        1,
    )
    for audience in ("public", "internal"):
        text = mc.render(made.audit(), "json", audience=audience)
        assert ("1 published value" in text) == (audience == "internal")
    two = {**table, "age": [31.0, 35.0, np.nan, 60.0, 70.0, 80.0]}
    made = mc.anonymize(two, schema, k=3, method="mdav", missing="impute")
    assert "risk.lone_values" not in {item.code for item in made.findings}


def test_the_values_of_one_person_with_several_rows_are_those_of_one_person():
    table = {"who": list("aabcdef"), "age": [31.0, 33.0, np.nan, np.nan, 60.0, 70.0, 80.0]}
    table["sex"] = [0, 0, 0, 0, 9, 9, 9]
    schema = mc.Schema(person="who", quasi=["age", "sex"])
    made = mc.anonymize(table, schema, k=3, method="mdav", missing="impute")
    finding = next(item for item in made.findings if item.code == "risk.lone_values")
    assert finding.figures["values"] == 1


def test_the_gap_of_one_member_is_not_published():
    """Where dates would change places, the mean gap is published, but not that of one person."""
    start = [100.0, 900.0, np.nan]
    table = {"start": start, "end": [150.0, np.nan, 160.0]}
    schema = mc.Schema(quasi=["start", mc.Column("end", after="start")])
    made = mc.anonymize(table, schema, k=3, method="mdav", missing="impute")
    assert set(made.table["start"]) == {500.0}
    assert set(made.table["end"]) == {500.0}  # 550 would tell that someone's gap is 50


def test_the_gap_is_not_that_of_the_heaviest_member():
    table = {
        "start": [100.0, 900.0, 950.0, 1000.0],
        "end": [110.0, 902.0, np.nan, np.nan],
        "w": [1e6, 1.0, 1.0, 1.0],
    }
    schema = mc.Schema(quasi=["start", mc.Column("end", after="start")], weight="w")
    made = mc.anonymize(table, schema, k=4, method="mdav", missing="impute")
    assert set(made.table["start"]) == {525.0}  # (3 * 100 + 900 + 950 + 1000) / 6
    assert set(made.table["end"]) == {531.0}  # a gap of (10 + 2) / 2: both count as much


def test_persons_who_differ_in_nothing_share_one_cell():
    """Without any dimension, and with the rows of a person together."""
    table = {"who": list("aabbcd"), "age": [30.0] * 6}
    schema = mc.Schema(person="who", quasi=["age"], person_cells="together")
    made = mc.anonymize(table, schema, k=2, method="mdav")
    assert made.table["age"].tolist() == table["age"]
