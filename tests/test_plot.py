"""Pictures of cells: of methods side by side, and of a release."""

from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

import microcell as mc


def people(n=80, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "name": np.array([f"S3CR3T{i}" for i in range(n)], dtype=object),
        "age": np.round(rng.normal(50, 12, n), 2),
        "income": np.round(rng.lognormal(10, 0.4, n), 2),
        "bmi": np.round(rng.normal(25, 4, n), 2),
        "sex": rng.choice(["female", "male"], n).astype(object),
    }


TWO = mc.Schema(quasi=["age", "income"], rest="drop")
THREE = mc.Schema(quasi=["age", "income", "bmi"], rest="drop")


def texts(svg):
    return [
        "".join(node.itertext())
        for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


# ---------------------------------------------------------------------------------------------- methods side by side


@pytest.mark.parametrize(
    ("form", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")]
)
def test_forms(form, start):
    assert mc.plot.draw_cells(people(), TWO, k=10, form=form).startswith(start)


def test_a_panel_a_method_with_its_distortion_and_cells():
    told = texts(mc.plot.draw_cells(people(), TWO, k=10, methods=["mdav", "vmdav", "pcl"]))
    assert {"MDAV", "VMDAV", "PCL", "age (standardized)", "income (standardized)"} <= set(told)
    for method in ("mdav", "pcl"):
        made = mc.anonymize(people(), TWO, k=10, method=method).manifest.cells
        assert f"distortion {made['distortion']:.4g}, {made['count']} cells" in told


def test_the_same_picture_every_time():
    assert mc.plot.draw_cells(people(), TWO, k=10) == mc.plot.draw_cells(people(), TWO, k=10)


def test_a_single_method_is_a_word():
    assert "PCL" not in texts(mc.plot.draw_cells(people(), TWO, k=10, methods="mdav"))


def test_columns_are_chosen_by_name():
    told = texts(mc.plot.draw_cells(people(), THREE, k=10, methods="mdav", columns=["bmi", "age"]))
    assert {"bmi (standardized)", "age (standardized)"} <= set(told)
    assert "income (standardized)" not in told


def test_strata_and_missing_values_are_heeded():
    frame = pl.DataFrame(people()).with_columns(
        pl.when(pl.int_range(pl.len()) < 3).then(None).otherwise(pl.col("age")).alias("age")
    )
    schema = mc.Schema(quasi=["age", "income"], strata=["sex"], rest="drop")
    with pytest.raises(mc.errors.DataError, match=r"'age' \(3\)"):
        mc.plot.draw_cells(frame, schema, k=5)
    for missing in ("drop", "impute"):
        assert "PCL" in texts(mc.plot.draw_cells(frame, schema, k=5, missing=missing))


@pytest.mark.parametrize(
    ("schema", "options", "words"),
    [
        (THREE, {}, "two dimensions; the quasi-identifiers have 3"),
        (THREE, {"columns": ["age"]}, "two dimensions; the quasi-identifiers have 1"),
        (
            THREE,
            {"columns": ["age", "sex"]},
            "'sex' are not among the quasi-identifiers age, income, bmi",
        ),
        (TWO, {"methods": []}, "No method to draw"),
        (TWO, {"methods": ["mdav", "nonsense"]}, "No method 'nonsense'"),
        (TWO, {"methods": "univariate"}, "one dimension"),
        (TWO, {"k": 1}, "k must be 2 or more"),
        (TWO, {"missing": "ignore"}, "missing must be one of"),
        (TWO, {"seed": -1}, "seed must be"),
        (TWO, {"form": "bmp"}, "bmp"),
    ],
)
def test_what_cannot_be_drawn_is_refused(schema, options, words):
    with pytest.raises(mc.errors.OptionError, match=words):
        mc.plot.draw_cells(people(), schema, **{"k": 10, **options})


def test_names_are_not_in_the_picture():
    assert b"S3CR3T" not in mc.plot.draw_cells(people(), TWO, k=10)


# ---------------------------------------------------------------------------------------------- a release


@pytest.mark.parametrize("cells", [False, True, "balls", "lookup"])
def test_a_release_of_two_numbers_has_a_picture(cells):
    release = mc.anonymize(people(), TWO, k=10, method="mdav", cells=cells)
    svg = mc.plot.draw_release(people(), release)
    assert "MDAV" in texts(svg)
    assert f"distortion {release.manifest.cells.sse_ratio:.4g}, 8 cells" in texts(svg)


def test_power_cells_are_drawn_as_their_diagram():
    plain, power = (
        mc.anonymize(people(), TWO, k=10, method="pcl", cells=cells) for cells in (False, True)
    )
    np.testing.assert_array_equal(plain.partition.labels, power.partition.labels)
    assert mc.plot.draw_release(people(), plain) != mc.plot.draw_release(people(), power)


def test_a_release_of_other_dimensions_has_none():
    one, nominal = (
        mc.Schema(quasi=["age"], rest="drop"),
        mc.Schema(quasi=["age", "sex"], rest="drop"),
    )
    for schema in (one, THREE):
        assert (
            mc.plot.draw_release(people(), mc.anonymize(people(), schema, k=10, method="bisect"))
            is None
        )
    with_sex = mc.plot.draw_release(people(), mc.anonymize(people(), nominal, k=10, method="mdav"))
    assert with_sex is None or "sex (standardized)" in texts(with_sex)


@pytest.mark.parametrize("missing", ["drop", "impute"])
def test_a_release_with_missing_values_has_a_picture(missing):
    frame = pl.DataFrame(people()).with_columns(
        pl.when(pl.int_range(pl.len()) < 3).then(None).otherwise(pl.col("age")).alias("age")
    )
    release = mc.anonymize(frame, TWO, k=10, method="mdav", missing=missing)
    assert mc.plot.draw_release(frame, release).startswith(b"<?xml")
