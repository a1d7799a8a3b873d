"""Figures of cells: several methods side by side, and a release."""

import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest

import microcell as mc
from microcell.errors import DataError, OptionError
from tests.raising import raises


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


# ------------------------------------------------------------------------------ methods


@pytest.mark.parametrize(
    ("format", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")]
)
def test_file_formats(format, start):
    assert mc.plot.cells(people(), TWO, k=10, format=format).startswith(start)


@pytest.mark.full_search
def test_each_method_has_a_panel_with_its_distortion_and_cells():
    shown = texts(mc.plot.cells(people(), TWO, k=10, methods=["mdav", "vmdav", "pcl"]))
    assert {"MDAV", "VMDAV", "PCL", "age (standardized)", "income (standardized)"} <= set(shown)
    columns = np.column_stack([people()["age"], people()["income"]])
    points = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    for method in ("mdav", "pcl"):
        release = mc.anonymize(people(), TWO, k=10, method=method)
        distortion = mc.distortion(points, release.partition.labels)
        assert f"distortion {distortion:.4g}, {len(release.partition)} cells" in shown


def test_notebooks_display_figures():
    files = {
        name: mc.plot.cells(people(), TWO, k=10, format=name) for name in ("svg", "png", "pdf")
    }
    shown = {name: (file._repr_svg_(), file._repr_png_()) for name, file in files.items()}
    assert shown["svg"] == (files["svg"].decode(), None)
    assert shown["png"] == (None, bytes(files["png"]))
    assert shown["pdf"] == (None, None)
    assert len(repr(files["svg"])) < 100


def test_figures_are_reproducible():
    assert mc.plot.cells(people(), TWO, k=10) == mc.plot.cells(people(), TWO, k=10)


def test_a_single_method_may_be_a_string():
    assert "PCL" not in texts(mc.plot.cells(people(), TWO, k=10, methods="mdav"))


def test_columns_are_selected_by_name():
    shown = texts(mc.plot.cells(people(), THREE, k=10, methods="mdav", columns=["bmi", "age"]))
    assert {"bmi (standardized)", "age (standardized)"} <= set(shown)
    assert "income (standardized)" not in shown


def test_strata_and_missing_values_are_respected():
    frame = pl.DataFrame(people()).with_columns(
        pl.when(pl.int_range(pl.len()) < 3).then(None).otherwise(pl.col("age")).alias("age")
    )
    schema = mc.Schema(quasi=["age", "income"], strata=["sex"], rest="drop")
    with raises(DataError, "data.missing_values", columns=("age",), counts={"age": 3}):
        mc.plot.cells(frame, schema, k=5)
    for missing in ("drop", "impute"):
        assert "PCL" in texts(mc.plot.cells(frame, schema, k=5, missing=missing))


@pytest.mark.parametrize(
    ("schema", "options", "code", "details"),
    [
        (THREE, {}, "option.unsupported", {"dimensions": 3}),
        (THREE, {"columns": ["age"]}, "option.unsupported", {"dimensions": 1}),
        (THREE, {"columns": ["age", "sex"]}, "option.unknown", {"columns": ["sex"]}),
        (TWO, {"methods": []}, "option.invalid", {"option": "methods"}),
        (TWO, {"format": "bmp"}, "option.unknown", {"option": "format"}),
    ],
)
def test_undrawable_input_is_rejected(schema, options, code, details):
    with raises(OptionError, code, **details):
        mc.plot.cells(people(), schema, **{"k": 10, **options})


@pytest.mark.parametrize(
    ("options", "code", "option"),
    [
        ({"methods": ["mdav", "nonsense"]}, "option.unknown", "method"),
        ({"methods": "univariate"}, "option.unsupported", "method"),
        ({"k": 1}, "option.out_of_range", "k"),
        ({"missing": "ignore"}, "option.unknown", "missing"),
        ({"seed": -1}, "option.out_of_range", "seed"),
    ],
)
def test_options_are_checked_as_by_anonymize(options, code, option):
    with raises(OptionError, code, option=option):
        mc.plot.cells(people(), TWO, **{"k": 10, **options})


def test_identifiers_are_not_in_the_figure():
    assert b"S3CR3T" not in mc.plot.cells(people(), TWO, k=10)


# ------------------------------------------------------------------------------ a release


@pytest.mark.parametrize("cells", [False, True, "balls", "lookup"])
def test_a_release_with_two_numeric_columns_can_be_drawn(cells):
    release = mc.anonymize(people(), TWO, k=10, method="mdav", cells=cells)
    shown = texts(mc.plot.release(people(), release))
    assert "MDAV" in shown
    assert any(text.startswith("distortion ") and text.endswith(", 8 cells") for text in shown)


def test_power_cells_are_drawn_as_their_diagram():
    power = mc.anonymize(people(), TWO, k=10, method="pcl", cells=True)
    plain = replace(power, cells=None)
    assert mc.plot.release(people(), plain) != mc.plot.release(people(), power)


def test_a_release_of_other_dimensions_has_no_figure():
    one = mc.Schema(quasi=["age"], rest="drop")
    for schema in (one, THREE):
        release = mc.anonymize(people(), schema, k=10, method="bisect")
        assert mc.plot.release(people(), release) is None
    nominal = mc.Schema(quasi=["age", "sex"], rest="drop")
    figure = mc.plot.release(people(), mc.anonymize(people(), nominal, k=10, method="mdav"))
    assert figure is None or "sex (standardized)" in texts(figure)


@pytest.mark.parametrize("missing", ["drop", "impute"])
def test_the_figure_of_a_release_handles_missing_values_as_the_release_did(missing):
    frame = pl.DataFrame(people()).with_columns(
        pl.when(pl.int_range(pl.len()) < 3).then(None).otherwise(pl.col("age")).alias("age")
    )
    release = mc.anonymize(frame, TWO, k=10, method="mdav", missing=missing)
    assert mc.plot.release(frame, release).startswith(b"<?xml")


def test_matplotlib_is_loaded_when_a_figure_is_drawn():
    code = "import sys, microcell as mc; mc.plot.cells; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
