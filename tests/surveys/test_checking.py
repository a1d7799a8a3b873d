"""Checking: genuine cells pass, and false statements are found although the digest is right."""

import json

import numpy as np
import pytest

import microcell as mc
from microcell.cells.base import _seal
from microcell.errors import OptionError
from tests.raising import raises
from tests.surveys.candidates import OPTIONS_BY_KIND, K


def forge(design, folder, change):
    """Write the cells file with changed content and a valid digest."""
    path = folder / "forged.json"
    design.cells.save(path, confidential=True)
    content = json.loads(path.read_text())
    change(content)
    del content["sha256"]
    path.write_text(json.dumps(_seal(content)))
    return path


@pytest.mark.parametrize("kind", OPTIONS_BY_KIND)
@pytest.mark.parametrize("participation", ["common", "uneven"])
def test_genuine_designs_pass(kind, participation, people, designs, tmp_path):
    design = designs[kind, participation]
    assert mc.surveys.check(design.cells).holds
    column = "probability" if participation == "uneven" else None
    result = mc.surveys.check(design.cells, people, participation=column).require()
    assert "frame" in [item.name for item in result.findings]
    assert mc.surveys.check(forge(design, tmp_path, dict.copy), people).holds


def set_survey(name, value):
    def change(content):
        content["survey"][name] = value

    return change


def lower_one(content):
    content["survey"]["cell_failures"][2] *= 0.5


def raise_common(content):
    content["survey"]["participation"]["common"] = 0.9


def accept_less(content):
    content["survey"]["failure"] = max(content["survey"]["cell_failures"]) * 0.9


def shift_size(content):
    content["cells"]["sizes"][0] += 1
    content["cells"]["sizes"][1] -= 1


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        (lower_one, "cell failures"),
        (raise_common, "cell failures"),
        (accept_less, "limit"),
        (set_survey("k", K + 1), "cell failures"),
        (set_survey("table_failure", 1e-9), "table failure"),
        (set_survey("unprotected", 0.5), "unprotected"),
        (set_survey("record_failure", 0.0), "record failure"),
        (set_survey("participant_failure", 0.0), "participant failure"),
    ],
)
def test_false_statements_are_detected(change, failed, designs, tmp_path):
    result = mc.surveys.check(forge(designs["power", "common"], tmp_path, change))
    assert not result.holds
    assert failed in [item.name for item in result.findings if not item.holds]
    with raises(mc.GuaranteeError, "guarantee.failed") as caught:
        result.require()
    assert failed in caught.value.details["checks"]


def test_false_sizes_are_detected_with_the_frame(people, designs, tmp_path):
    def change(content):
        shift_size(content)
        failures = content["survey"]["cell_failures"]
        for cell in (0, 1):
            size = content["cells"]["sizes"][cell]
            failures[cell] = float(mc.surveys.cell_failures(np.zeros(size, dtype=int), 0.7, K)[0])

    # The cells are large enough to stay within the limit with the false sizes.
    design = mc.surveys.design(people, mc.Schema(quasi=["age"]), K, 0.7, 0.3, method="mdav")
    path = forge(design, tmp_path, change)
    result = mc.surveys.check(path, people)
    assert "frame" in [item.name for item in result.findings if not item.holds]


def test_another_frame_is_detected(people, designs):
    others = {name: column[::-1][:-3] for name, column in people.items()}
    assert not mc.surveys.check(designs["power", "common"].cells, others).holds


def test_false_probabilities_are_detected(people, designs):
    swapped = {**people, "probability": people["probability"][::-1]}
    result = mc.surveys.check(
        designs["power", "uneven"].cells, swapped, participation="probability"
    )
    assert [item.name for item in result.findings if not item.holds] == ["participation"]
    unnamed = mc.surveys.check(designs["power", "uneven"].cells, people)
    assert unnamed.findings[-1].name == "participation"
    assert "not compared" in unnamed.findings[-1].message


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["survey"].pop("k"),
        lambda content: content["survey"].update(more=1),
        lambda content: content.update(survey=None),
        lambda content: content.update(survey=[]),
        lambda content: content.pop("survey"),
        lambda content: content.update(version=1),
        set_survey("k", 1),
        set_survey("k", 2.5),
        set_survey("failure", 0),
        set_survey("failure", "small"),
        set_survey("trust", "much"),
        set_survey("participation", {"common": 0}),
        set_survey("participation", {"common": 0.5, "cells": []}),
        set_survey("participation", {"cells": [[[0.5, 1]]]}),
        set_survey("cell_failures", [0.1]),
        set_survey("table_failure", -1),
        set_survey("unprotected", None),
    ],
)
def test_malformed_survey_sections(change, designs, tmp_path):
    with raises(mc.errors.TableError, "table.malformed"):
        mc.surveys.check(forge(designs["power", "common"], tmp_path, change))


@pytest.mark.parametrize(
    "change", [lambda pairs: pairs.reverse(), lambda pairs: pairs[0].__setitem__(1, 99)]
)
def test_participation_by_cell_must_be_sorted_and_complete(change, designs, tmp_path):
    with raises(mc.errors.TableError, "table.malformed", entry="participation"):
        mc.surveys.check(
            forge(
                designs["power", "uneven"],
                tmp_path,
                lambda content: change(max(content["survey"]["participation"]["cells"], key=len)),
            )
        )


def test_an_altered_file(designs, tmp_path):
    path = tmp_path / "cells.json"
    designs["power", "common"].cells.save(path)
    path.write_text(path.read_text().replace('"trust": "local"', '"trust": "none"'))
    with raises(mc.errors.TableError, "table.malformed"):
        mc.surveys.check(path)


def test_cells_without_a_survey_section(people):
    release = mc.anonymize({"age": people["age"]}, mc.Schema(quasi=["age"]), k=5, cells=True)
    assert json.loads(release.cells.to_json())["version"] == 1
    with raises(OptionError, "option.unsupported", option="cells"):
        mc.surveys.check(release.cells)
    with raises(OptionError, "option.unsupported", option="cells"):
        mc.surveys.answer(release.cells, {"age": 5})


def test_survey_files_have_version_2_and_load_unchanged(designs, tmp_path):
    for (kind, _), design in designs.items():
        path = tmp_path / "cells.json"
        design.cells.save(path, confidential=kind == "lookup")
        assert json.loads(path.read_text())["version"] == 2
        again = mc.load_cells(path)
        assert again.digest == design.cells.digest
        assert dict(again.survey) == dict(design.cells.survey)


def test_invalid_options(people, designs):
    cells = designs["power", "uneven"].cells
    with raises(OptionError, "option.conflict", option="participation"):
        mc.surveys.check(cells, participation="probability")
    with raises(mc.errors.SchemaError, "schema.unknown_column", column="name"):
        mc.surveys.check(cells, people, participation="name")
    with raises(OptionError, "option.unknown", option="missing"):
        mc.surveys.check(cells, people, missing="guess")
    holes = np.where(np.arange(len(people["age"])) < 5, np.nan, people["height"])
    with raises(OptionError, "option.invalid", option="missing", row=1):
        mc.surveys.check(cells, {**people, "height": holes})
