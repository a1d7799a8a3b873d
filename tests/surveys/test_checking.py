"""Checks: what is true holds, and every lie is found, though its file is sealed anew."""

import json

import numpy as np
import pytest

import microcell as mc
from microcell.cells.base import _seal
from tests.surveys.candidates import WAYS, K


def forge(design, folder, change):
    """The design's file with its content changed, sealed as if nothing had happened."""
    path = folder / "forged.json"
    design.cells.save(path, confidential=True)
    content = json.loads(path.read_text())
    change(content)
    del content["sha256"]
    path.write_text(json.dumps(_seal(content)))
    return path


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize("how", ["common", "uneven"])
def test_designs_hold(kind, how, people, designs, tmp_path):
    design = designs[kind, how]
    assert mc.surveys.check_survey(design.cells).holds
    column = "chance" if how == "uneven" else None
    found = mc.surveys.check_survey(design.cells, people, participation=column).require()
    assert "frame" in [item.name for item in found.findings]
    assert mc.surveys.check_survey(forge(design, tmp_path, dict.copy), people).holds


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
    ("change", "bad"),
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
def test_lies_are_found(change, bad, designs, tmp_path):
    found = mc.surveys.check_survey(forge(designs["power", "common"], tmp_path, change))
    assert not found.holds
    assert bad in [item.name for item in found.findings if not item.holds]
    with pytest.raises(mc.GuaranteeError):
        found.require()


def test_sizes_that_are_not_true_are_found_with_the_frame(people, designs, tmp_path):
    def change(content):
        shift_size(content)
        failures = content["survey"]["cell_failures"]
        for cell in (0, 1):
            size = content["cells"]["sizes"][cell]
            failures[cell] = float(mc.surveys.cell_failures(np.zeros(size, dtype=int), 0.7, K)[0])

    # Cells large enough that the lie about their sizes stays within the limit.
    design = mc.surveys.design_survey(people, mc.Schema(quasi=["age"]), K, 0.7, 0.3, method="mdav")
    path = forge(design, tmp_path, change)
    found = mc.surveys.check_survey(path, people)
    assert "frame" in [item.name for item in found.findings if not item.holds]


def test_a_frame_of_others_is_found(people, designs):
    others = {name: column[::-1][:-3] for name, column in people.items()}
    assert not mc.surveys.check_survey(designs["power", "common"].cells, others).holds


def test_probabilities_that_are_not_true_are_found(people, designs):
    swapped = {**people, "chance": people["chance"][::-1]}
    found = mc.surveys.check_survey(
        designs["power", "uneven"].cells, swapped, participation="chance"
    )
    assert [item.name for item in found.findings if not item.holds] == ["participation"]
    unnamed = mc.surveys.check_survey(designs["power", "uneven"].cells, people)
    assert "not compared" in unnamed.findings[-1].words


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
def test_damaged_survey_parts_are_refused(change, designs, tmp_path):
    with pytest.raises(mc.errors.TableError):
        mc.surveys.check_survey(forge(designs["power", "common"], tmp_path, change))


@pytest.mark.parametrize(
    "change", [lambda pairs: pairs.reverse(), lambda pairs: pairs[0].__setitem__(1, 99)]
)
def test_participation_by_cell_must_be_sorted_and_complete(change, designs, tmp_path):
    with pytest.raises(mc.errors.TableError):
        mc.surveys.check_survey(
            forge(
                designs["power", "uneven"],
                tmp_path,
                lambda content: change(max(content["survey"]["participation"]["cells"], key=len)),
            )
        )


def test_an_altered_file_is_refused(designs, tmp_path):
    path = tmp_path / "cells.json"
    designs["power", "common"].cells.save(path)
    path.write_text(path.read_text().replace('"trust": "local"', '"trust": "none"'))
    with pytest.raises(mc.errors.TableError, match="altered"):
        mc.surveys.check_survey(path)


def test_cells_of_no_survey_are_refused(people):
    release = mc.anonymize({"age": people["age"]}, mc.Schema(quasi=["age"]), k=5, cells=True)
    assert json.loads(release.cells.to_json())["version"] == 1
    with pytest.raises(mc.errors.OptionError, match="not designed for a survey"):
        mc.surveys.check_survey(release.cells)
    with pytest.raises(mc.errors.OptionError, match="not designed for a survey"):
        mc.surveys.answer_survey(release.cells, {"age": 5})


def test_files_of_surveys_are_of_version_2_and_come_back_equal(designs, tmp_path):
    for (kind, _), design in designs.items():
        path = tmp_path / "cells.json"
        design.cells.save(path, confidential=kind == "lookup")
        assert json.loads(path.read_text())["version"] == 2
        again = mc.load_cells(path)
        assert again.digest == design.cells.digest
        assert dict(again.survey) == dict(design.cells.survey)


def test_wrong_options_are_refused(people, designs):
    cells = designs["power", "uneven"].cells
    with pytest.raises(mc.errors.OptionError, match="give the frame"):
        mc.surveys.check_survey(cells, participation="chance")
    with pytest.raises(mc.errors.SchemaError, match="'name'"):
        mc.surveys.check_survey(cells, people, participation="name")
    with pytest.raises(mc.errors.OptionError, match="missing"):
        mc.surveys.check_survey(cells, people, missing="guess")
    holes = np.where(np.arange(len(people["age"])) < 5, np.nan, people["height"])
    with pytest.raises(mc.errors.OptionError, match="5 candidates lack"):
        mc.surveys.check_survey(cells, {**people, "height": holes})
