"""Formula injection: texts of the release that spreadsheet programs would run."""

import csv
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.errors import OptionError, TableError
from microcell.model.formulas import escape_text, is_risky, unescape_text
from tests.raising import raises

ATTACKS = ["=HYPERLINK(0)", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "'=kept"]


def table(n=14):
    return {
        "age": np.arange(n) + 30,
        "change": np.arange(n) - 7,
        "note": (ATTACKS * n)[:n],
        "code": ["-5", "+49 30", "fine", "a=b"] * (n // 4) + ["-5"] * (n % 4),
    }


def schema():
    return mc.Schema(quasi=["age"], confidential=["change", "note", "code"])


def cells_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    return [cell for row in rows for cell in row]


def test_escaped_releases_contain_no_formula(tmp_path):
    release = mc.anonymize(table(), schema(), k=2)
    release.publish(tmp_path / "plain.csv", keep_order=True)
    assert any(map(is_risky, cells_of(tmp_path / "plain.csv")))
    release.publish(tmp_path / "safe.csv", keep_order=True, escape_formulas=True)
    texts = cells_of(tmp_path / "safe.csv")
    assert not any(map(is_risky, texts))
    assert "-7" in texts  # numbers stay numbers
    assert "''=kept" in texts
    manifest = json.loads((tmp_path / "safe.csv.manifest.json").read_text(encoding="utf-8"))
    assert manifest["formulas_escaped"] is True


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt"])
def test_the_audit_undoes_the_escaping_and_otherwise_warns(suffix, tmp_path):
    mc.write(table(), tmp_path / f"original{suffix}")
    original = mc.read(tmp_path / f"original{suffix}")
    release = mc.anonymize(original, schema(), k=2)
    for escape in (False, True):
        path = tmp_path / f"release{suffix}"
        release.publish(path, escape_formulas=escape)
        audit = mc.audit(original, path, schema())
        assert audit["values_changed"] == 0
        warnings = [item for item in audit.findings if item.code == "file.formulas"]
        assert len(warnings) == (not escape)
        if warnings:
            # Six of seven notes, twice; "-5" is a number and "+49 30" is not.
            assert "'note' (12)" in warnings[0].sentence
            assert "'code' (3)" in warnings[0].sentence
            assert "change" not in warnings[0].columns
            assert warnings[0] in release.findings


def test_other_formats_need_no_escaping(tmp_path):
    release = mc.anonymize(table(), schema(), k=2)
    with raises(OptionError, "option.conflict", option="escape_formulas"):
        release.publish(tmp_path / "out.parquet", escape_formulas=True)
    release.publish(tmp_path / "out.parquet")
    findings = mc.audit(table(), tmp_path / "out.parquet", schema()).findings
    assert "file.formulas" not in {item.code for item in findings}
    named = mc.anonymize(
        {"age": [30, 31, 32], "=1": [1, 2, 3]}, mc.Schema(["age"][:0], ["age"], ["=1"]), k=3
    )
    with raises(TableError, "table.bad_names", column="=1"):
        named.publish(tmp_path / "named.csv", escape_formulas=True)


@given(st.text(st.sampled_from("'=+-@\t\r1a.")))
def test_escaping_can_be_undone(text):
    escaped = escape_text(text)
    assert not is_risky(escaped)
    assert unescape_text(escaped) == text
