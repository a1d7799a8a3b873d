"""Designing: every cell meets the limit as the published cells assign the candidates."""

import json
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.errors import DataError, OptionError, SchemaError, TooFewRecordsError
from microcell.methods.candidates import expected_distortion, participating_cells
from microcell.surveys.build import CellsTask, build_survey_cells
from tests.raising import raises
from tests.surveys.candidates import FAILURE, OPTIONS_BY_KIND, SCHEMA, K, failure_of, make_people

DESIGNS = [
    (kind, participation) for kind in OPTIONS_BY_KIND for participation in ("common", "uneven")
]


def probabilities_of(people, participation):
    return (
        people["probability"]
        if participation == "uneven"
        else np.full(len(people["probability"]), 0.7)
    )


def reload(design, folder):
    path = folder / "cells.json"
    design.cells.save(path, confidential=design.cells.holds_records)
    return mc.load_cells(path)


@pytest.mark.parametrize(("kind", "participation"), DESIGNS)
def test_every_cell_meets_the_limit(kind, participation, people, designs, tmp_path):
    design = designs[kind, participation]
    cells = reload(design, tmp_path)
    labels = mc.assign(cells, people).labels
    assert np.array_equal(labels, design.labels)
    assert np.array_equal(np.bincount(labels, minlength=len(cells)), cells.sizes)
    probabilities = probabilities_of(people, participation)
    for cell in range(len(cells)):
        exact = failure_of(probabilities[labels == cell], K)
        assert exact <= FAILURE * (1 + 1e-9)
        assert cells.survey["cell_failures"][cell] == pytest.approx(exact, rel=1e-9, abs=1e-15)
    whole = 1 - np.prod([1 - value for value in cells.survey["cell_failures"]])
    assert cells.survey["table_failure"] == pytest.approx(whole, rel=1e-9)
    assert len(cells) > 5


@pytest.mark.parametrize("participation", ["common", "uneven"])
def test_stated_probabilities_agree_with_a_simulation(participation, people, designs):
    design = designs["power", participation]
    result = mc.surveys.simulate_participation(
        probabilities_of(people, participation), K, labels=design.labels, trials=40_000
    )
    stated = design.cells.survey
    for name in ("table_failure", "record_failure", "participant_failure", "unprotected"):
        estimate = getattr(result, name)
        assert abs(estimate.value - stated[name]) <= 4 * estimate.error, name


def test_common_participation_determines_the_cell_size(designs):
    size = mc.surveys.effective_anonymity(K, 0.7, FAILURE).size
    for kind in ("power", "balls", "lookup"):
        assert designs[kind, "common"].cells.sizes.min() >= size
        assert designs[kind, "common"].manifest.cells.least_size == size


def test_certain_participation_needs_only_k(people):
    design = mc.surveys.design(people, SCHEMA, K, 1.0, FAILURE, method="mdav")
    assert design.manifest.cells.least_size == K
    assert design.failures.table_failure == 0
    assert design.manifest.certainty.ratio == pytest.approx(1.0)


def test_a_column_of_equal_probabilities_counts_as_common(people):
    same = {**people, "probability": np.full(len(people["age"]), 0.7)}
    by_column = mc.surveys.design(same, SCHEMA, K, "probability", FAILURE, method="mdav")
    by_number = mc.surveys.design(same, SCHEMA, K, 0.7, FAILURE, method="mdav")
    assert np.array_equal(by_column.labels, by_number.labels)
    assert by_column.cells.survey["participation"] == {"common": 0.7}


def test_uncertainty_increases_distortion(designs):
    for design in designs.values():
        assert design.manifest.certainty.ratio > 1


def test_comparison_with_certainty_uses_a_part_of_large_frames(people, monkeypatch):
    schema = mc.Schema(quasi=["age", "height"])
    whole = mc.surveys.design(people, schema, K, 0.7, FAILURE, method="mdav").manifest.certainty
    monkeypatch.setattr("microcell.surveys.designs._MAX_COMPARED", 200)
    manifest = mc.surveys.design(people, schema, K, 0.7, FAILURE, method="mdav").manifest
    some = manifest.certainty
    assert (whole.candidates, some.candidates) == (420, 200)
    assert some.information_loss == pytest.approx(manifest.expected_information_loss / some.ratio)
    assert 0.5 < some.ratio / whole.ratio < 2


def test_comparison_is_skipped_if_there_are_too_few_neighbours(people, monkeypatch):
    monkeypatch.setattr("microcell.surveys.designs._MAX_COMPARED", 4)
    design = mc.surveys.design(people, mc.Schema(quasi=["age"]), K, "probability", FAILURE)
    assert design.manifest.certainty.model_dump(exclude_none=True) == {"candidates": 0}
    assert "<html" in design.render()


def test_means_are_weighted_by_participation(people, designs):
    design = designs["power", "uneven"]
    for cell in (0, len(design.cells) - 1):
        members = design.labels == cell
        mean = np.average(people["age"][members], weights=people["probability"][members])
        assert design.cells.representatives["age"][cell] == np.floor(mean + 0.5)


def test_refinement_lowers_distortion_by_five_percent():
    rng = np.random.default_rng(3)
    X, probabilities = rng.normal(size=(1500, 4)), rng.uniform(0.3, 0.95, 1500)
    start = participating_cells(X, 5, probabilities, 1e-3, refine=False)
    cells = build_survey_cells(CellsTask(X, probabilities, 5, 1e-3, None), "power")
    ratio = expected_distortion(X, cells.assign(X), probabilities) / expected_distortion(
        X, start, probabilities
    )
    assert ratio <= 0.95


def test_macrocells_meet_the_limit(monkeypatch):
    monkeypatch.setattr("microcell.surveys.build._MANY", 1000)
    monkeypatch.setattr("microcell.surveys.build._MACROCELL", 500)
    rng = np.random.default_rng(4)
    X, probabilities = rng.normal(size=(3000, 3)), rng.uniform(0.2, 1.0, 3000)
    for size in (None, mc.surveys.effective_anonymity(4, 0.6, 1e-3).size):
        each = probabilities if size is None else np.full(3000, 0.6)
        cells = build_survey_cells(CellsTask(X, each, 4, 1e-3, size), "power")
        labels = cells.assign(X)
        assert cells.chooser is not None
        assert np.array_equal(np.bincount(labels), cells.sizes)
        assert max(failure_of(each[labels == cell], 4) for cell in range(len(cells))) <= 1e-3


@given(
    rows=st.integers(30, 120),
    values=st.integers(1, 12),
    dimensions=st.integers(1, 3),
    k=st.integers(2, 4),
    kind=st.sampled_from(["power", "balls", "lookup"]),
    even=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_cells_meet_the_limit_for_any_points(rows, values, dimensions, k, kind, even, seed):
    """With few distinct values most points are equal and must be in the same cell."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, values, (rows, dimensions)).astype(float)
    probabilities = np.full(rows, 0.8) if even else rng.choice([0.4, 0.7, 1.0], rows)
    size = mc.surveys.effective_anonymity(k, 0.8, 0.05).size if even else None
    try:
        cells = build_survey_cells(CellsTask(X, probabilities, k, 0.05, size, method="mdav"), kind)
    except mc.errors.TooFewRecordsError:
        assert failure_of(probabilities, k) > 0.05 or (size or 0) > rows
        return
    labels = cells.assign(X)
    assert np.array_equal(np.bincount(labels, minlength=len(cells)), cells.sizes)
    assert all(
        failure_of(probabilities[labels == cell], k) <= 0.05 * (1 + 1e-9)
        for cell in range(len(cells))
    )
    assert cells.sizes.min() >= k


# ------------------------------------------------------------------------- privacy of the file


def numbers_in(data):
    if isinstance(data, dict):
        return set(chain.from_iterable(numbers_in(item) for item in data.values()))
    if isinstance(data, list):
        return set(chain.from_iterable(numbers_in(item) for item in data))
    return {float(data)} if isinstance(data, (int, float)) and not isinstance(data, bool) else set()


@pytest.fixture(scope="module")
def continuous():
    rng = np.random.default_rng(9)
    return {
        "x": rng.normal(size=300),
        "y": rng.normal(size=300) * 1e6,
        "probability": rng.choice([0.4, 0.9], 300),
    }


@pytest.mark.parametrize("kind", OPTIONS_BY_KIND)
@pytest.mark.parametrize("participation", [0.7, "probability"])
def test_files_contain_no_record(kind, participation, continuous, tmp_path):
    design = mc.surveys.design(
        continuous, mc.Schema(quasi=["x", "y"]), 3, participation, 0.01, **OPTIONS_BY_KIND[kind]
    )
    path = tmp_path / "cells.json"
    design.cells.save(path, confidential=kind == "lookup")
    result = numbers_in(json.loads(path.read_text()))
    values = set(continuous["x"].tolist()) | set(continuous["y"].tolist())
    for name in ("x", "y"):
        encoded = design.cells.encoding.columns["xy".index(name)]
        values |= set(
            ((continuous[name] - encoded.origin - encoded.centre[0]) / encoded.scale[0]).tolist()
        )
    assert bool(result & values) == (kind == "lookup")


def test_rare_categories_are_not_in_the_file_or_the_manifest(designs):
    for (kind, _), design in designs.items():
        text = design.manifest.to_json() + ("" if kind == "lookup" else design.cells.to_json())
        assert "Prats" not in text
        assert "Taradell" not in text
        assert "person" not in text


def test_manifest_is_json_with_digests(people, designs):
    for design in designs.values():
        manifest = json.loads(design.manifest.to_json())
        assert manifest["cells_sha256"] == design.cells.digest
        assert len(manifest["frame"]["sha256"]) == 64


# ------------------------------------------------------------------------------ invalid input


@pytest.mark.parametrize(
    ("options", "code", "option"),
    [
        ({"k": 1}, "option.out_of_range", "k"),
        ({"k": True}, "option.wrong_type", "k"),
        ({"failure": 0.0}, "option.out_of_range", "failure"),
        ({"failure": 1.0}, "option.out_of_range", "failure"),
        ({"failure": np.nan}, "option.out_of_range", "failure"),
        ({"participation": 0.0}, "option.out_of_range", "participation"),
        ({"participation": 1.5}, "option.out_of_range", "participation"),
        ({"participation": np.nan}, "option.out_of_range", "participation"),
        ({"participation": None}, "option.wrong_type", "participation"),
        ({"participation": "age"}, "option.conflict", "participation"),
        ({"trust": "remote"}, "option.unknown", "trust"),
        ({"cells": "boxes"}, "option.unsupported", "cells"),
        ({"trust": "none", "cells": "power"}, "option.unsupported", "cells"),
        ({"max_boxes": 9}, "option.conflict", "max_boxes"),
        ({"method": "mdav", "participation": "probability"}, "option.unsupported", "method"),
    ],
)
def test_invalid_options(options, code, option, people):
    request = {"k": K, "participation": 0.7, "failure": FAILURE, **options}
    with raises(OptionError, code, option=option):
        mc.surveys.design(people, SCHEMA, **request)


@pytest.mark.parametrize("options", [{"method": "nonsense"}, {"seed": -1}, {"missing": "guess"}])
def test_invalid_options_shared_with_anonymize(options, people):
    with pytest.raises(OptionError) as caught:
        mc.surveys.design(people, SCHEMA, K, 0.7, FAILURE, **options)
    assert caught.value.details["option"] in options


def test_invalid_participation_columns(people):
    with raises(SchemaError, "schema.unknown_column", column="nowhere"):
        mc.surveys.design(people, SCHEMA, K, "nowhere", FAILURE)
    with raises(DataError, "data.not_a_number", column="name"):
        mc.surveys.design(people, SCHEMA, K, "name", FAILURE)


@pytest.mark.parametrize(
    "options",
    [
        {"k": 300},
        {"k": 300, "participation": "probability"},
        {"k": 300, "trust": "none", "participation": "probability"},
        {"k": 5000},
    ],
)
def test_too_few_candidates(options, people):
    request = {"participation": 0.7, "failure": FAILURE, **options}
    with raises(TooFewRecordsError, "guarantee.too_few_records", records=420):
        mc.surveys.design(people, SCHEMA, **request)


@pytest.mark.parametrize("wrong", [0.0, -0.5, 1.01, np.nan, np.inf])
def test_invalid_probabilities_are_named_by_row(wrong, people):
    probabilities = people["probability"].copy()
    probabilities[[6, 9]] = wrong
    with raises(DataError, "data.out_of_range", column="probability", row=7):
        mc.surveys.design(
            {**people, "probability": probabilities}, SCHEMA, K, "probability", FAILURE
        )


def test_strata_and_weights_are_not_supported(people):
    for schema in (
        replace(SCHEMA, quasi=SCHEMA.quasi[1:], strata=("age",)),
        replace(SCHEMA, weight="probability"),
    ):
        with raises(SchemaError, "schema.invalid"):
            mc.surveys.design(people, schema, K, 0.7, FAILURE)


@pytest.mark.parametrize("name", ["cell", "design"])
def test_reserved_column_names(name, people):
    with raises(OptionError, "option.conflict", column=name):
        mc.surveys.design({name: people["age"]}, mc.Schema(quasi=[name]), K, 0.7, FAILURE)


def test_only_constant_columns():
    with raises(OptionError, "option.unsupported"):
        mc.surveys.design({"x": [1] * 50}, mc.Schema(quasi=["x"]), 2, 0.9, 0.1)


@pytest.mark.parametrize("scale", [1e-90, 1e90])
def test_huge_and_tiny_scales(scale):
    x = np.random.default_rng(1).normal(size=200) * scale
    design = mc.surveys.design(
        {"x": x, "y": np.ones(200)}, mc.Schema(quasi=["x", "y"]), 3, 0.8, 0.01, method="mdav"
    )
    assert mc.surveys.check(design.cells, {"x": x, "y": np.ones(200)}).holds


def test_missing_values_are_an_error_dropped_or_imputed(people):
    incomplete = {
        **people,
        "height": np.where(np.arange(len(people["age"])) < 5, np.nan, people["height"]),
    }
    with raises(DataError, "data.missing_values", columns=("height",), counts={"height": 5}):
        mc.surveys.design(incomplete, SCHEMA, K, 0.7, FAILURE, method="mdav")
    for missing, designed in (("drop", 415), ("impute", 420)):
        design = mc.surveys.design(incomplete, SCHEMA, K, "probability", FAILURE, missing=missing)
        assert design.manifest.candidates.model_dump() == {"read": 420, "designed": designed}
        assert mc.surveys.check(
            design.cells, incomplete, missing=missing, participation="probability"
        ).holds


def test_max_boxes(people):
    design = mc.surveys.design(people, SCHEMA, K, 0.7, FAILURE, trust="none", max_boxes=6)
    assert len(design.cells) == 6


def test_same_seed_gives_the_same_design(people, designs):
    again = mc.surveys.design(make_people(), SCHEMA, K, "probability", FAILURE)
    assert again.cells.digest == designs["power", "uneven"].cells.digest


@pytest.mark.parametrize("kind", OPTIONS_BY_KIND)
def test_limit_equal_to_an_attained_failure(kind):
    rng = np.random.default_rng(0)
    frame = {"x": rng.normal(size=120), "y": rng.integers(18, 90, 120)}
    for share in (0.6, 0.7, 0.9):
        limit = mc.surveys.effective_anonymity(3, share, 1e-3).cell_failure
        exact, looser = (
            mc.surveys.design(
                frame, mc.Schema(quasi=["x", "y"]), 3, share, value, **OPTIONS_BY_KIND[kind]
            )
            for value in (limit, limit * (1 + 1e-9))
        )
        assert exact.failures.worst <= limit
        assert exact.manifest.cells.least_size - looser.manifest.cells.least_size in (
            0,
            1,
        )
        assert len(exact.cells) >= 0.6 * len(looser.cells)


@pytest.mark.parametrize("kind", OPTIONS_BY_KIND)
def test_a_single_cell_at_the_limit(kind):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        frame = {"x": rng.normal(size=12), "p": rng.uniform(0.3, 0.9, 12)}
        limit = float(mc.surveys.cell_failures(np.zeros(12, dtype=int), frame["p"], 3)[0])
        try:
            design = mc.surveys.design(
                frame, mc.Schema(quasi=["x"]), 3, "p", limit, **OPTIONS_BY_KIND[kind]
            )
        except mc.errors.TooFewRecordsError:
            continue
        assert design.failures.worst <= limit


@pytest.mark.parametrize("kind", ["power", "balls", "lookup"])
def test_no_candidate_dominates_the_mean_of_a_cell(kind):
    rng = np.random.default_rng(0)
    # Hardly anybody takes part, so all cells meet the limit for cells.
    tiny = np.where(np.arange(400) % 8 == 0, 1e-5, 1e-12)
    frame = {
        "x": np.round(rng.normal(size=400), 4),
        "y": np.round(rng.normal(size=400), 4),
        "p": tiny,
    }
    with raises(mc.GuaranteeError, "guarantee.failed"):
        mc.surveys.design(
            frame,
            mc.Schema(quasi=["x", "y"]),
            3,
            "p",
            1e-4,
            failure_of="cell",
            **OPTIONS_BY_KIND[kind],
        )
