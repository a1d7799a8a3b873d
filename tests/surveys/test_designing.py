"""Designs: every cell holds as the published function has it, and what is asked for wrongly is refused."""

import json
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import microcell as mc
from microcell.methods.candidates import expected_distortion, participating_cells
from microcell.surveys.make_cells import Task, make_cells
from tests.surveys.candidates import FAILURE, SCHEMA, WAYS, K, failure_of, make_people

BOTH = [(kind, how) for kind in WAYS for how in ("common", "uneven")]


def chances_of(people, how):
    return people["chance"] if how == "uneven" else np.full(len(people["chance"]), 0.7)


def reload(design, folder):
    path = folder / "cells.json"
    design.cells.save(path, confidential=design.cells.holds_records)
    return mc.load_cells(path)


@pytest.mark.parametrize(("kind", "how"), BOTH)
def test_every_cell_holds_as_the_file_assigns_the_candidates(kind, how, people, designs, tmp_path):
    design = designs[kind, how]
    cells = reload(design, tmp_path)
    labels = mc.assign(cells, people).labels
    assert np.array_equal(labels, design.labels)
    assert np.array_equal(np.bincount(labels, minlength=len(cells)), cells.sizes)
    chances = chances_of(people, how)
    for cell in range(len(cells)):
        own = failure_of(chances[labels == cell], K)
        assert own <= FAILURE * (1 + 1e-9)
        assert cells.survey["cell_failures"][cell] == pytest.approx(own, rel=1e-9, abs=1e-15)
    whole = 1 - np.prod([1 - value for value in cells.survey["cell_failures"]])
    assert cells.survey["table_failure"] == pytest.approx(whole, rel=1e-9)
    assert len(cells) > 5


@pytest.mark.parametrize("how", ["common", "uneven"])
def test_the_figures_come_out_when_participation_is_drawn(how, people, designs):
    design = designs["power", how]
    found = mc.surveys.simulate_participation(
        chances_of(people, how), K, labels=design.labels, trials=4000
    )
    stated = design.cells.survey
    for name in ("table_failure", "record_failure", "participant_failure", "unprotected"):
        estimate = getattr(found, name)
        assert abs(estimate.value - stated[name]) <= 4 * estimate.error, name


def test_a_common_participation_gives_cells_of_the_size_that_it_needs(designs):
    size = mc.surveys.effective_anonymity(K, 0.7, FAILURE).size
    for kind in ("power", "balls", "lookup"):
        assert designs[kind, "common"].cells.sizes.min() >= size
        assert designs[kind, "common"].manifest["cells"]["least_size"] == size


def test_certain_participation_needs_k_and_costs_nothing(people):
    design = mc.surveys.design_survey(people, SCHEMA, K, 1.0, FAILURE, method="mdav")
    assert design.manifest["cells"]["least_size"] == K
    assert design.figures.table_failure == 0
    assert design.manifest["certainty"]["ratio"] == pytest.approx(1.0)


def test_a_column_of_equal_probabilities_is_a_common_one(people):
    same = {**people, "chance": np.full(len(people["age"]), 0.7)}
    by_column = mc.surveys.design_survey(same, SCHEMA, K, "chance", FAILURE, method="mdav")
    by_number = mc.surveys.design_survey(same, SCHEMA, K, 0.7, FAILURE, method="mdav")
    assert np.array_equal(by_column.labels, by_number.labels)
    assert by_column.cells.survey["participation"] == {"common": 0.7}


def test_uncertainty_costs_distortion(designs):
    for design in designs.values():
        assert design.manifest["certainty"]["ratio"] > 1


def test_what_participation_costs_is_found_on_some_of_many(people, monkeypatch):
    schema = mc.Schema(quasi=["age", "height"])
    whole = mc.surveys.design_survey(people, schema, K, 0.7, FAILURE, method="mdav").manifest[
        "certainty"
    ]
    monkeypatch.setattr("microcell.surveys.designs._COMPARED", 200)
    manifest = mc.surveys.design_survey(people, schema, K, 0.7, FAILURE, method="mdav").manifest
    some = manifest["certainty"]
    assert (whole["candidates"], some["candidates"]) == (420, 200)
    assert some["distortion"] == pytest.approx(manifest["distortion"] / some["ratio"])
    assert 0.5 < some["ratio"] / whole["ratio"] < 2


def test_a_design_stands_where_too_few_lie_together_to_compare(people, monkeypatch):
    monkeypatch.setattr("microcell.surveys.designs._COMPARED", 4)
    design = mc.surveys.design_survey(people, mc.Schema(quasi=["age"]), K, "chance", FAILURE)
    assert design.manifest["certainty"] == {"distortion": None, "ratio": None, "candidates": 0}
    assert "or nobody" in mc.surveys.render_survey(design)


def test_means_are_weighed_by_participation(people, designs):
    design = designs["power", "uneven"]
    for cell in (0, len(design.cells) - 1):
        own = design.labels == cell
        mean = np.average(people["age"][own], weights=people["chance"][own])
        assert design.cells.representatives["age"][cell] == np.floor(mean + 0.5)


def test_refinement_gains_five_percent_on_cells_grown_by_the_stopping_rule():
    chance = np.random.default_rng(3)
    X, chances = chance.normal(size=(1500, 4)), chance.uniform(0.3, 0.95, 1500)
    start = participating_cells(X, 5, chances, 1e-3, refine=False)
    made = make_cells(Task(X, chances, 5, 1e-3, None), "power")
    gained = expected_distortion(X, made.assign(X), chances) / expected_distortion(
        X, start, chances
    )
    assert gained <= 0.95


def test_macrocells_hold_too(monkeypatch):
    monkeypatch.setattr("microcell.surveys.make_cells._MANY", 1000)
    monkeypatch.setattr("microcell.surveys.make_cells._MACROCELL", 500)
    chance = np.random.default_rng(4)
    X, chances = chance.normal(size=(3000, 3)), chance.uniform(0.2, 1.0, 3000)
    for size in (None, mc.surveys.effective_anonymity(4, 0.6, 1e-3).size):
        own = chances if size is None else np.full(3000, 0.6)
        made = make_cells(Task(X, own, 4, 1e-3, size), "power")
        labels = made.assign(X)
        assert made.chooser is not None
        assert np.array_equal(np.bincount(labels), made.sizes)
        assert max(failure_of(own[labels == cell], 4) for cell in range(len(made))) <= 1e-3


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(30, 120),
    values=st.integers(1, 12),
    dimensions=st.integers(1, 3),
    k=st.integers(2, 4),
    kind=st.sampled_from(["power", "balls", "lookup"]),
    even=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_cells_hold_whatever_the_points(rows, values, dimensions, k, kind, even, seed):
    """With few distinct values most points are equal, and a function must send them to one cell."""
    chance = np.random.default_rng(seed)
    X = chance.integers(0, values, (rows, dimensions)).astype(float)
    chances = np.full(rows, 0.8) if even else chance.choice([0.4, 0.7, 1.0], rows)
    size = mc.surveys.effective_anonymity(k, 0.8, 0.05).size if even else None
    try:
        made = make_cells(Task(X, chances, k, 0.05, size, method="mdav"), kind)
    except mc.errors.TooFewRecordsError:
        assert failure_of(chances, k) > 0.05 or (size or 0) > rows
        return
    labels = made.assign(X)
    assert np.array_equal(np.bincount(labels, minlength=len(made)), made.sizes)
    assert all(
        failure_of(chances[labels == cell], k) <= 0.05 * (1 + 1e-9) for cell in range(len(made))
    )
    assert made.sizes.min() >= k


# ---------------------------------------------------------------------------------------------- privacy of the file


def numbers_in(data):
    if isinstance(data, dict):
        return set(chain.from_iterable(numbers_in(item) for item in data.values()))
    if isinstance(data, list):
        return set(chain.from_iterable(numbers_in(item) for item in data))
    return {float(data)} if isinstance(data, (int, float)) and not isinstance(data, bool) else set()


@pytest.fixture(scope="module")
def continuous():
    chance = np.random.default_rng(9)
    return {
        "x": chance.normal(size=300),
        "y": chance.normal(size=300) * 1e6,
        "chance": chance.choice([0.4, 0.9], 300),
    }


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize("who", [0.7, "chance"])
def test_files_hold_no_candidates_record(kind, who, continuous, tmp_path):
    design = mc.surveys.design_survey(
        continuous, mc.Schema(quasi=["x", "y"]), 3, who, 0.01, **WAYS[kind]
    )
    path = tmp_path / "cells.json"
    design.cells.save(path, confidential=kind == "lookup")
    found = numbers_in(json.loads(path.read_text()))
    values = set(continuous["x"].tolist()) | set(continuous["y"].tolist())
    for name in ("x", "y"):
        encoded = design.cells.encoding.columns["xy".index(name)]
        values |= set(
            ((continuous[name] - encoded.origin - encoded.centre[0]) / encoded.scale[0]).tolist()
        )
    assert bool(found & values) == (kind == "lookup")


def test_no_rare_name_is_in_the_file_or_the_manifest(designs):
    for (kind, _), design in designs.items():
        text = json.dumps(design.manifest) + ("" if kind == "lookup" else design.cells.to_json())
        assert "Prats" not in text
        assert "Taradell" not in text
        assert "person" not in text


def test_the_manifest_is_json_and_tells_digests(people, designs):
    for design in designs.values():
        told = json.loads(json.dumps(design.manifest))
        assert told["cells_sha256"] == design.cells.digest
        assert len(told["frame"]["sha256"]) == 64


# ---------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"k": 1}, mc.errors.OptionError, "k must be"),
        ({"k": True}, mc.errors.OptionError, "k must be"),
        ({"failure": 0.0}, mc.errors.OptionError, "failure"),
        ({"failure": 1.0}, mc.errors.OptionError, "failure"),
        ({"failure": np.nan}, mc.errors.OptionError, "failure"),
        ({"participation": 0.0}, mc.errors.OptionError, "participation"),
        ({"participation": 1.5}, mc.errors.OptionError, "participation"),
        ({"participation": np.nan}, mc.errors.OptionError, "participation"),
        ({"participation": None}, mc.errors.OptionError, "participation"),
        ({"participation": "nowhere"}, mc.errors.SchemaError, "'nowhere'"),
        ({"participation": "name"}, mc.errors.DataError, "not probabilities"),
        ({"participation": "age"}, mc.errors.OptionError, "quasi-identifier"),
        ({"trust": "remote"}, mc.errors.OptionError, "trust"),
        ({"cells": "boxes"}, mc.errors.OptionError, "power"),
        ({"trust": "none", "cells": "power"}, mc.errors.OptionError, "boxes"),
        ({"boxes": 9}, mc.errors.OptionError, "trust='none'"),
        ({"method": "nonsense"}, mc.errors.OptionError, "nonsense"),
        ({"method": "mdav", "participation": "chance"}, mc.errors.OptionError, "uneven"),
        ({"seed": -1}, mc.errors.OptionError, "seed"),
        ({"missing": "guess"}, mc.errors.OptionError, "missing"),
        ({"k": 300}, mc.errors.TooFewRecordsError, "candidates"),
        ({"k": 300, "participation": "chance"}, mc.errors.TooFewRecordsError, "candidates"),
        (
            {"k": 300, "trust": "none", "participation": "chance"},
            mc.errors.TooFewRecordsError,
            "candidates",
        ),
        ({"k": 5000}, mc.errors.TooFewRecordsError, "records"),
    ],
)
def test_wrong_requests_are_refused(options, error, said, people):
    given = {"k": K, "participation": 0.7, "failure": FAILURE, **options}
    with pytest.raises(error, match=said):
        mc.surveys.design_survey(people, SCHEMA, **given)


@pytest.mark.parametrize("wrong", [0.0, -0.5, 1.01, np.nan, np.inf])
def test_a_wrong_probability_is_told_by_row(wrong, people):
    chances = people["chance"].copy()
    chances[[6, 9]] = wrong
    with pytest.raises(mc.errors.DataError, match=r"2 rows are not, the first is row 7"):
        mc.surveys.design_survey({**people, "chance": chances}, SCHEMA, K, "chance", FAILURE)


def test_strata_and_weights_are_refused(people):
    for schema in (
        replace(SCHEMA, quasi=SCHEMA.quasi[1:], strata=("age",)),
        replace(SCHEMA, weight="chance"),
    ):
        with pytest.raises(mc.errors.SchemaError):
            mc.surveys.design_survey(people, schema, K, 0.7, FAILURE)


@pytest.mark.parametrize("name", ["cell", "design"])
def test_names_that_answers_use_are_refused(name, people):
    with pytest.raises(mc.errors.OptionError, match=name):
        mc.surveys.design_survey({name: people["age"]}, mc.Schema(quasi=[name]), K, 0.7, FAILURE)


def test_constant_columns_alone_are_refused():
    with pytest.raises(mc.errors.OptionError, match="varies"):
        mc.surveys.design_survey({"x": [1] * 50}, mc.Schema(quasi=["x"]), 2, 0.9, 0.1)


@pytest.mark.parametrize("scale", [1e-90, 1e90])
def test_huge_and_tiny_scales_are_designed_for(scale):
    x = np.random.default_rng(1).normal(size=200) * scale
    design = mc.surveys.design_survey(
        {"x": x, "y": np.ones(200)}, mc.Schema(quasi=["x", "y"]), 3, 0.8, 0.01, method="mdav"
    )
    assert mc.surveys.check_survey(design.cells, {"x": x, "y": np.ones(200)}).holds


def test_missing_values_are_refused_dropped_or_imputed(people):
    holes = {
        **people,
        "height": np.where(np.arange(len(people["age"])) < 5, np.nan, people["height"]),
    }
    with pytest.raises(mc.errors.DataError, match=r"'height' \(5\)"):
        mc.surveys.design_survey(holes, SCHEMA, K, 0.7, FAILURE, method="mdav")
    for missing, designed in (("drop", 415), ("impute", 420)):
        design = mc.surveys.design_survey(holes, SCHEMA, K, "chance", FAILURE, missing=missing)
        assert design.manifest["candidates"] == {"in": 420, "designed": designed}
        assert mc.surveys.check_survey(
            design.cells, holes, missing=missing, participation="chance"
        ).holds


def test_boxes_keep_to_their_limit(people):
    design = mc.surveys.design_survey(people, SCHEMA, K, 0.7, FAILURE, trust="none", boxes=6)
    assert len(design.cells) == 6


def test_the_same_seed_gives_the_same_design(people, designs):
    again = mc.surveys.design_survey(make_people(), SCHEMA, K, "chance", FAILURE)
    assert again.cells.digest == designs["power", "uneven"].cells.digest


@pytest.mark.parametrize("kind", WAYS)
def test_a_failure_just_attained_is_a_limit_like_any_other(kind):
    chance = np.random.default_rng(0)
    frame = {"x": chance.normal(size=120), "y": chance.integers(18, 90, 120)}
    for share in (0.6, 0.7, 0.9):
        limit = mc.surveys.effective_anonymity(3, share, 1e-3).cell_failure
        made, looser = (
            mc.surveys.design_survey(
                frame, mc.Schema(quasi=["x", "y"]), 3, share, value, **WAYS[kind]
            )
            for value in (limit, limit * (1 + 1e-9))
        )
        assert made.figures.failures.max() <= limit
        assert made.manifest["cells"]["least_size"] - looser.manifest["cells"]["least_size"] in (
            0,
            1,
        )
        assert len(made.cells) >= 0.6 * len(looser.cells)


@pytest.mark.parametrize("kind", WAYS)
def test_all_in_one_cell_at_the_limit_is_a_design_or_too_few_candidates(kind):
    for seed in range(12):
        chance = np.random.default_rng(seed)
        frame = {"x": chance.normal(size=12), "p": chance.uniform(0.3, 0.9, 12)}
        limit = float(
            mc.surveys.cell_failures(np.zeros(12, dtype=int), frame["p"], 3)[0]
        )  # in the order of the frame
        try:
            design = mc.surveys.design_survey(
                frame, mc.Schema(quasi=["x"]), 3, "p", limit, **WAYS[kind]
            )
        except mc.errors.TooFewRecordsError:
            continue
        assert design.figures.failures.max() <= limit


@pytest.mark.parametrize("kind", ["power", "balls", "lookup"])
def test_no_candidate_is_the_weighted_mean_of_a_cell(kind):
    chance = np.random.default_rng(0)
    hardly = np.where(
        np.arange(400) % 8 == 0, 1e-5, 1e-12
    )  # hardly anybody comes, so that all cells hold
    frame = {
        "x": np.round(chance.normal(size=400), 4),
        "y": np.round(chance.normal(size=400), 4),
        "p": hardly,
    }
    with pytest.raises(mc.GuaranteeError, match="one candidate"):
        mc.surveys.design_survey(frame, mc.Schema(quasi=["x", "y"]), 3, "p", 1e-4, **WAYS[kind])
