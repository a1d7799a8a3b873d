"""The attacks of benchmarks/adversary fail on releases and succeed on broken ones."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.adversary import (
    buffers,
    differencing,
    digits,
    documents,
    grid,
    linkage,
    minimality,
    missing,
    outliers,
    page,
    ranges,
    repeating,
    row_order,
    settings,
    weights,
)
from benchmarks.adversary.recovery import ALPHA, Trials, judge

import microcell as mc
from tests.adversary.oracles import order_from_original


def beyond(trials):
    return judge(trials)["beyond_guessing"]


def share(trials):
    return np.mean(trials.hits)


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    return settings.publish(
        "survey", "mdav", 3, 48, 1, tmp_path_factory.mktemp("release"), documents=True
    )


# ------------------------------------------------------------------------------------- statistics


def test_only_a_significant_excess_counts():
    chances = (1 / 3,) * 30
    for hits in range(31):
        result = judge(Trials((True,) * hits + (False,) * (30 - hits), chances))
        assert (result["beyond_guessing"] > 0) == (result["p_value"] <= ALPHA)
        assert result["guessing"] == 10
        low, high = result["interval"]
        assert low <= hits / 30 <= high
    assert judge(Trials((True,) * 30, chances))["beyond_guessing"] == 20


def test_measured_baselines():
    everything, nothing = (True,) * 20, (False,) * 20
    assert judge(Trials(everything, guesses=nothing))["beyond_guessing"] == 20
    assert judge(Trials(everything, guesses=everything))["beyond_guessing"] == 0
    assert judge(Trials(nothing, guesses=everything))["p_value"] == 1
    assert judge(Trials(everything, decoys=nothing))["beyond_guessing"] == 20
    assert judge(Trials(everything, decoys=everything))["beyond_guessing"] == 0
    with pytest.raises(ValueError, match="baseline"):
        Trials(everything, guesses=(True,))


# ------------------------------------------------------------- attacks that releases must resist


def test_row_positions(setting, tmp_path):
    assert beyond(row_order.attack_positions(setting)) == 0
    kept = settings.publish("survey", "mdav", 3, 48, 1, tmp_path, keep_order=True)
    assert share(row_order.attack_positions(kept)) == 1


def test_the_row_order_oracle():
    assert beyond(row_order.attack_oracle(6)) == 0
    assert share(row_order.attack_oracle(6, order_of=order_from_original)) == 1


@pytest.mark.parametrize("noise", grid.NOISE)
def test_linkage(setting, noise):
    assert beyond(linkage.attack(setting, noise)) == 0


def test_linkage_finds_records_of_the_original(setting):
    people = {name: column[setting.release.row_order] for name, column in setting.people.items()}
    assert share(linkage.attack(setting, 0.01, people)) > 0.9


def test_documents(setting, tmp_path):
    assert beyond(documents.attack(setting)) == 0
    internal = tmp_path / "internal.txt"
    internal.write_text(
        "\n".join(f"{name} {bmi}" for name, bmi in zip(*_columns(setting), strict=True))
    )
    assert beyond(documents.attack(setting, [internal])) > 40


def _columns(setting):
    return setting.people["name"].tolist(), setting.people["latitude"].tolist()


def test_numbers_are_found_in_compressed_and_encoded_parts(tmp_path):
    from fpdf import FPDF

    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("helvetica")
    pdf.cell(text="income 9,876,543")
    assert "9876543" in documents.tokens(bytes(pdf.output()))
    assert "9876.5" in documents.tokens(b"data:text/plain;base64,OTg3Ni41")


def test_outliers():
    assert beyond(outliers.attack(15, 3, 60)) == 0
    assert beyond(outliers.attack(15, 3, 60, exact=True)) > 10


def test_ranges():
    assert beyond(ranges.attack("mdav", 3, 60, 0)) == 0
    assert share(ranges.attack("mdav", 3, 60, 0, exact=True)) == 1


def test_digits():
    assert beyond(digits.attack_all_but_two("mdav", 3, 60, 0)) == 0
    assert share(digits.attack_all_but_two("mdav", 3, 60, 0, telling=True)) > 0.8


@pytest.mark.parametrize("k", [3, 4])
def test_digits_exclude_no_member_that_the_sum_allows(k):
    cells = list(digits.find_candidates("mdav", k, 60, 0))
    assert len(cells) > 10
    assert all(cell.fitting == cell.options for cell in cells)
    assert all(cell.truth in cell.options for cell in cells)


def test_minimality():
    plain = minimality.attack_cells("mdav", 3, 24, 0, classes=4)
    assert beyond(plain) == 0
    # With dependence, the cells depend on what is to be recovered.
    assert beyond(minimality.attack_cells("mdav", 3, 60, 1, dependence=0.5, classes=18)) > 3


def test_bytes_of_files(tmp_path):
    trials = buffers.attack_files("mdav", 24, 0, tmp_path)
    assert len(trials.hits) > 24 * len(buffers.FORMATS)
    assert sum(trials.hits) == 0


def test_bytes_of_frames():
    assert sum(buffers.attack_frames("mdav", 36, 0).hits) == 0


@pytest.mark.parametrize("suffix", buffers.FORMATS)
def test_the_scan_finds_texts_in_every_format(suffix, tmp_path):
    columns = buffers.make_frame(24, 0)
    mc.write(pd.DataFrame(columns), tmp_path / f"original{suffix}")
    content = buffers.file_bytes(tmp_path / f"original{suffix}")
    assert np.mean(buffers.survivors(content, columns["name"])) > 0.9


@pytest.mark.parametrize("suffix", buffers.LABELLED)
def test_the_scan_finds_labels_of_values(suffix, tmp_path):
    columns = buffers.make_frame(24, 0)
    path = tmp_path / f"original{suffix}"
    buffers.write_with_labels(columns, path, buffers.LABELLED[suffix])
    assert all(buffers.survivors(buffers.file_bytes(path), columns["town"]))


@pytest.mark.parametrize("kind", buffers.FRAMES)
def test_the_scan_finds_texts_in_every_frame(kind):
    columns = buffers.make_frame(24, 0)
    content = buffers.frame_bytes(buffers.FRAMES[kind](columns))
    assert all(buffers.survivors(content, columns["name"]))


def test_the_scan_finds_unused_categories(tmp_path):
    gone = "Rtownbcdfghjklm"
    names = ["a", gone]
    pandas = pd.DataFrame({"x": pd.Categorical(["a", "a"], names)})
    polars = pl.DataFrame({"x": pl.Series(["a", "a"], dtype=pl.Enum(names))})
    arrow = pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(names))})
    sliced = pa.table({"x": pa.array(names).slice(0, 1)})
    for frame in (pandas, polars, arrow, sliced):
        assert buffers.survivors(buffers.frame_bytes(frame), [gone]) == [True]
    pq.write_table(arrow, tmp_path / "unused.parquet")
    assert buffers.survivors(buffers.file_bytes(tmp_path / "unused.parquet"), [gone]) == [True]
    assert gone.encode() in pickle.dumps(pandas)


@pytest.mark.parametrize(
    "attack", [repeating.attack_collections, repeating.attack_sessions], ids=["survey", "session"]
)
def test_a_second_release_with_one_more_person_does_not_exist(attack, tmp_path):
    (tmp_path / "guarded").mkdir()
    (tmp_path / "copied").mkdir()
    guarded = attack(3, 60, 0, 4, tmp_path / "guarded")
    copied = attack(3, 60, 0, 4, tmp_path / "copied", copied=True)
    assert share(copied) == 1  # the attack works where the documentation warns of it
    assert share(guarded) < 1


# ----------------------------------------------------------- attacks that the documentation admits


def test_attacks_that_succeed(tmp_path):
    left = differencing.attack_one_left("heavy-tailed", "mdav", 3, 48, 0, 12)
    assert share(left) == 1
    assert beyond(left) > 5
    assert (
        beyond(differencing.attack_one_left("heavy-tailed", "mdav", 3, 48, 0, 12, releases=1)) == 0
    )
    two = differencing.attack_two_partitions("heavy-tailed", 3, 48, 0, ["mdav", "vmdav"])
    assert share(two) > np.mean(two.chances)
    one = differencing.attack_two_partitions("heavy-tailed", 3, 48, 0, ["mdav", "mdav"])
    assert beyond(one) == 0
    assert share(digits.attack_all_but_one("mdav", 3, 60, 0)) == 1
    weighted = settings.publish("weighted", "mdav", 3, 48, 0, tmp_path)
    assert share(weights.attack_published(weighted)) == 1


def test_the_dominance_rule_limits_what_weights_tell():
    shares = [share(weights.attack("mdav", 3, 150, 0, dominance=rule)) for rule in ((1, 1.0), None)]
    trials = weights.attack("mdav", 3, 150, 0, dominance=(1, 1.0))
    assert beyond(trials) > 10
    assert shares[1] < shares[0] / 2


def test_the_dominance_rule_limits_what_rows_of_persons_tell():
    loose = weights.attack_persons("mdav", 3, 150, 0, dominance=(1, 1.0))
    assert beyond(loose) > 10
    assert share(weights.attack_persons("mdav", 3, 150, 0)) < share(loose) / 2


def test_imputed_values_of_single_members():
    trials = missing.attack("mdav", 3, 60, 0)
    assert len(trials.hits) > 3
    assert share(trials) == 1
    assert share(missing.attack("mdav", 3, 60, 0, impute=False)) < 0.2


def test_a_search_within_limits_depends_on_what_is_to_be_recovered():
    limits = {"column": "ill", "require": {"l_diversity": 2}}
    trials = minimality.attack_cells("mdav", 3, 24, 0, classes=3, **limits)
    assert len(trials.hits) == 3
    assert all(chance <= 1 / 3 for chance in trials.chances)


def test_merged_cells():
    assert minimality.consistent_marginals([3, 2], 2).tolist() == [0.5] * 3 + [0.25] * 2
    trials = minimality.attack_merged("mdav", 3, 60, 0)
    assert len(trials.hits) > 2
    assert share(trials) > 0.5


# ------------------------------------------------------------------------------------ grid and page


@pytest.mark.slow
def test_the_grid_runs_every_attack():
    lines = []
    results = grid.run(grid.PROFILES["tiny"], lines.append)
    assert [row["name"] for row in results["attacks"]] == [attack.name for attack in grid.ATTACKS]
    assert page.totals(results)["beyond"] == 0
    assert len(lines) == len(results["settings"])
    assert page.make_page(results, page.PAGE.read_text(encoding="utf-8"))


def test_the_page_is_current():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.make_page(page.read(), text) == text


def test_the_results_are_those_of_the_attacks():
    results = page.read()
    assert results["profile"] == "full"
    described = [{name: row[name] for name in ("name", "promised")} for row in results["attacks"]]
    assert described == [{"name": a.name, "promised": a.promised} for a in grid.ATTACKS]
    assert all(row["advice"] for row in results["attacks"] if not row["promised"])
    assert page.totals(results)["beyond"] == 0
