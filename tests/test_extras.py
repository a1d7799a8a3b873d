"""Without a package of an optional extra: a refusal that names it, or a page without figures."""

import importlib
import sys

import pytest
from typer.testing import CliRunner

import microcell as mc
from microcell.cli import app
from microcell.errors import OptionError, TableError
from tests.raising import raises

PEOPLE = mc.sample_survey(40)
SCHEMA = mc.sample_schema()


@pytest.fixture(scope="module")
def release():
    return mc.anonymize(PEOPLE, SCHEMA, k=5, method="mdav")


@pytest.fixture
def without(monkeypatch):
    """A function that makes a package look as if it were not installed."""
    return lambda name: monkeypatch.setitem(sys.modules, name, None)


def test_spreadsheets_need_the_excel_extra(release, without, tmp_path):
    path = tmp_path / "people.xlsx"
    mc.write(mc.read(PEOPLE), path)
    without("fastexcel")
    with raises(TableError, "option.extra_missing", package="fastexcel", extra="excel"):
        mc.read(path)
    without("xlsxwriter")
    with raises(TableError, "option.extra_missing", package="xlsxwriter", extra="excel"):
        mc.publish(release, tmp_path / "release.xlsx")
    assert [item.name for item in tmp_path.iterdir()] == ["people.xlsx"]


def test_figures_need_the_report_extra(without, tmp_path):
    mc.write(mc.read(PEOPLE), tmp_path / "people.csv")
    (tmp_path / "schema.toml").write_text(mc.schema.schema_to_toml(SCHEMA), encoding="utf-8")
    without("matplotlib")
    with raises(OptionError, "option.extra_missing", package="matplotlib", extra="report"):
        mc.plot.comparison([])
    files = [str(tmp_path / name) for name in ("people.csv", "schema.toml", "cells.svg")]
    arguments = zip(("draw", "-s", "-o"), files, strict=True)
    done = CliRunner().invoke(app, [*sum(arguments, ()), "-k", "5", "--columns", "age,bmi"])
    assert done.exit_code == 2
    assert "option.extra_missing" in done.stderr
    assert "microcell[report]" in done.stderr


@pytest.mark.parametrize("module, package", [("fpdf", "fpdf2"), ("matplotlib", "matplotlib")])
def test_certificates_need_the_report_extra(release, without, tmp_path, module, package):
    without(module)
    with raises(OptionError, "option.extra_missing", package=package, extra="report"):
        release.publish(tmp_path / "release.csv", certificate=tmp_path / "certificate.pdf")
    with raises(OptionError, "option.extra_missing", package=package, extra="report"):
        mc.report.certify(release.audit())
    assert not list(tmp_path.iterdir())


def test_a_report_without_matplotlib_has_no_figures_and_says_so(release, without, tmp_path):
    release.publish(tmp_path / "release.csv", report=tmp_path / "with.html")
    without("matplotlib")
    release.publish(tmp_path / "release.csv", report=tmp_path / "without.html")
    with_figures, plain = (
        (tmp_path / name).read_text(encoding="utf-8") for name in ("with.html", "without.html")
    )
    assert "<svg" in with_figures
    assert "microcell[report]" not in with_figures
    assert "<svg" not in plain
    assert "microcell[report]" in plain
    assert "5-anonymous" in plain


def test_the_design_of_a_survey_without_matplotlib_has_no_figures(without):
    without("matplotlib")
    design = mc.surveys.design(PEOPLE, SCHEMA, 2, participation=0.9, failure=0.1, method="mdav")
    page = design.render()
    assert "<svg" not in page
    assert "microcell[report]" in page


def test_statistical_files_need_the_stat_extra(without, tmp_path):
    without("pyreadstat")
    with raises(TableError, "option.extra_missing", package="pyreadstat", extra="stat"):
        mc.write(mc.read({"a": [1]}), tmp_path / "table.sav")


def test_estimators_need_the_sklearn_extra(without, monkeypatch):
    monkeypatch.delitem(sys.modules, "microcell.sklearn", raising=False)
    without("sklearn.base")
    with raises(OptionError, "option.extra_missing", package="scikit-learn", extra="sklearn"):
        importlib.import_module("microcell.sklearn")
