"""The status of a running survey, rejected answers, and waves that are k-anonymous together."""

import math
from collections import Counter

import numpy as np
import pytest

import microcell as mc
from microcell.errors import GuaranteeError, OptionError
from microcell.kernels.participation import exposures_of_cells
from microcell.surveys.waves import combine_waves

K = 3
SCHEMA = mc.Schema(quasi=["age"], rest="drop")
PEOPLE = {"age": np.arange(400) % 71 + 18}
FIRST, SECOND = 0.6, 0.5


@pytest.fixture(scope="module")
def design():
    return mc.surveys.design(PEOPLE, SCHEMA, K, FIRST, 0.01, next_wave=SECOND, method="mdav")


@pytest.fixture
def cells(design, tmp_path):
    design.publish(tmp_path / "cells.json")
    return tmp_path / "cells.json"


def answers_of(design, rows):
    return {"cell": design.labels[rows], "token": rows, "x": rows * 7}


def took_part(share, seed):
    return np.flatnonzero(np.random.default_rng(seed).random(400) < share)


# ------------------------------------------------------------------------------------- rejected


def invalid_answers(design):
    answers = answers_of(design, took_part(FIRST, 0))
    answers["token"][5] = answers["token"][4]
    answers["cell"] = answers["cell"].astype(float)
    answers["cell"][9] = 999
    return answers


def test_invalid_answers_are_listed_and_the_others_released(cells, design):
    answers = invalid_answers(design)
    with pytest.raises(mc.MicrocellError):
        mc.surveys.collect(cells, answers, id="token")
    result = mc.surveys.collect(cells, answers, id="token", invalid="reject")
    assert [(each.row, each.code) for each in result.rejected] == [
        (6, "data.bad_key"),
        (10, "data.unknown_category"),
    ]
    assert result.manifest.survey.rejected == 2
    assert not {7 * 999, int(answers["x"][5]), int(answers["x"][9])} & set(result.table["x"])
    assert result.audit["k"] >= K
    with pytest.raises(OptionError):
        mc.surveys.collect(cells, answers, id="token", invalid="drop")


# --------------------------------------------------------------------------------------- status


def test_status_counts_cells_without_an_answer_or_a_small_number(cells, design):
    answers = invalid_answers(design)
    result = mc.surveys.status(cells, answers, id="token")
    assert result.answers == len(answers["token"]) - 2
    assert len(result.rejected) == 2
    valid = np.setdiff1d(np.arange(len(answers["token"])), [5, 9])
    attained = np.bincount(answers["cell"][valid].astype(int), minlength=len(design.cells))
    for each in result.cells:
        n = int(attained[each.cell])
        assert each.attained == (None if n < K else n // K * K)
        assert each.expected == pytest.approx(FIRST * design.cells.sizes[each.cell])
    assert all(str(7 * token) not in result.render() for token in answers["token"] if token > 300)


def test_a_small_number_cannot_be_told_from_the_status(cells, design):
    base = took_part(FIRST, 1)
    others = base[design.labels[base] != 0]
    members = np.flatnonzero(design.labels == 0)
    seen = [
        mc.surveys.status(cells, answers_of(design, np.r_[others, members[:n]]), elapsed=1.0)
        for n in range(K)
    ]
    assert len({each.cells[0] for each in seen}) == 1
    assert 0 in seen[0].to_remind


def test_the_total_does_not_reveal_the_number_of_the_only_short_cell(design):
    """Statuses with one answer more in one cell or another differ in nothing but the total."""
    members = [np.flatnonzero(design.labels == cell) for cell in range(len(design.cells))]
    sizes = [1, *(K + 1 for _ in members[1:])]

    def status_of(counts):
        rows = np.concatenate([each[:n] for each, n in zip(members, counts, strict=True)])
        return mc.surveys.status(design.cells, answers_of(design, rows), elapsed=0.5)

    in_short, in_other = sizes.copy(), sizes.copy()
    in_short[0] += 1
    in_other[1] += 1
    assert status_of(in_short).cells == status_of(in_other).cells == status_of(sizes).cells
    test = status_of(sizes).test
    assert test.p_cells == float(f"{test.p_cells:.2g}")


def test_an_alarm_if_the_model_is_refuted(design):
    def verdict(rows, **options):
        return mc.surveys.status(design.cells, answers_of(design, rows), **options)

    assert verdict(took_part(0.3, 2)).alarm is None  # half of the answers so far
    assert verdict(took_part(0.3, 2), closed=True).alarm is not None
    assert verdict(took_part(0.85, 2)).alarm is not None  # more than expected
    uneven = np.flatnonzero(design.labels % 2 == 0)
    assert verdict(uneven).alarm is not None
    assert verdict(took_part(FIRST, 3), closed=True).alarm is None


def test_so_far_the_test_keeps_its_level(design):
    p_values = [
        mc.surveys.status(design.cells, answers_of(design, took_part(0.3, seed))).test.p_cells
        for seed in range(40)
    ]
    assert 0.2 < np.mean(p_values) < 0.8


# ---------------------------------------------------------------------------------------- waves


def test_the_design_covers_all_groups_of_two_waves(design):
    labels = design.labels.copy()
    groups = (FIRST, FIRST * SECOND, FIRST * (1 - SECOND), (1 - FIRST) * SECOND)
    for q in groups:
        assert exposures_of_cells(labels, np.full(400, q), K).max() <= 0.01
    section = design.manifest.participation
    assert (section.mean, section.next_wave) == (pytest.approx(FIRST), SECOND)
    wave = mc.surveys.next_wave(design.cells, SECOND)
    assert mc.surveys.check(wave.cells).holds
    assert wave.cells.digest != design.cells.digest
    assert wave.joint_failure <= 0.01


def test_other_designs_fail_over_two_waves():
    single = mc.surveys.design(PEOPLE, SCHEMA, K, FIRST, 0.01, method="mdav")
    with pytest.raises(GuaranteeError):
        mc.surveys.next_wave(single.cells, SECOND)
    assert mc.surveys.next_wave(single.cells, SECOND, suppress=True).suppressed > 0.001


def combinations(first, second, labels):
    """Count the people of each combination of cells, over both releases."""
    everybody = set(first) | set(second)
    return Counter(
        (labels[i] if i in first else None, labels[i] if i in second else None) for i in everybody
    )


@pytest.mark.parametrize("seed", range(4))
def test_two_releases_together_have_k_people_in_each_combination(tmp_path, seed):
    single = mc.surveys.design(PEOPLE, SCHEMA, K, FIRST, 0.05, method="mdav")
    single.publish(tmp_path / "one.json")
    mc.surveys.next_wave(single.cells, SECOND, suppress=True).cells.save(tmp_path / "two.json")
    before = answers_of(single, took_part(FIRST, seed))
    first = mc.surveys.collect(tmp_path / "one.json", before, id="token")
    first.publish(tmp_path / "one.csv")
    after = answers_of(single, took_part(SECOND, seed + 100))
    second = mc.surveys.collect(
        tmp_path / "two.json", after, id="token", earlier=[(tmp_path / "one.json", before)]
    )
    released = [{int(x) // 7 for x in each.table["x"]} for each in (first, second)]
    counts = combinations(*released, single.labels)
    assert min(counts.values()) >= K
    second.publish(tmp_path / "two.csv")
    with pytest.raises(GuaranteeError):  # with what was suppressed, it would be another release
        mc.surveys.collect(tmp_path / "two.json", after, id="token")
    (tmp_path / "two.ledger.json").unlink()
    alone = mc.surveys.collect(mc.load_cells(tmp_path / "one.json"), after, id="token")
    together = combinations(released[0], {int(x) // 7 for x in alone.table["x"]}, single.labels)
    assert min(together.values()) < K  # so there was something to suppress
    assert second.manifest.records.released < alone.manifest.records.released


def test_those_who_are_certain_to_take_part_hide_nobody_in_the_second_wave():
    """In a cell of 8 certain and 2 other candidates, the second wave alone can have one person."""
    people = {"age": np.repeat([20, 80], 40), "q": np.tile([1, 1, 1, 1, 0.9], 16)}
    schema = mc.Schema(quasi=["age"], rest="drop")
    with pytest.raises(OptionError) as caught:
        mc.surveys.design(people, schema, K, "q", 0.01, next_wave=0.5)
    assert caught.value.details["option"] == "next_wave"
    alone = mc.surveys.design(people, schema, K, "q", 0.01)
    with pytest.raises(GuaranteeError):
        mc.surveys.next_wave(alone.cells, 0.5)
    exact = 0.0
    later = mc.surveys.next_wave(alone.cells, 0.5, suppress=True)
    for cell in range(len(alone.cells)):
        others = int((people["q"][alone.labels == cell] < 1).sum())
        chance = 0.1 * 0.5  # in the second wave, but not in the first
        nobody = (1 - chance) ** others
        few = sum(
            math.comb(others, j) * chance**j * (1 - chance) ** (others - j) for j in range(1, K)
        )
        among = sum(
            math.comb(others - 1, j) * chance**j * (1 - chance) ** (others - 1 - j)
            for j in range(K - 1)
        )
        exact = max(exact, few / (1 - nobody), among)
    assert later.joint_failure == pytest.approx(exact, rel=1e-10)


def test_cells_that_need_the_wave_before_are_not_collected_alone(tmp_path):
    plain = mc.surveys.design(PEOPLE, SCHEMA, K, FIRST, 0.01, method="mdav")
    plain.publish(tmp_path / "one.json")
    later = mc.surveys.next_wave(tmp_path / "one.json", FIRST, suppress=True)
    assert later.cells.digest != plain.cells.digest
    later.cells.save(tmp_path / "two.json")
    first, second = answers_of(plain, took_part(FIRST, 1)), answers_of(plain, took_part(FIRST, 2))
    mc.surveys.collect(tmp_path / "one.json", first, id="token").publish(tmp_path / "one.csv")
    with pytest.raises(GuaranteeError) as caught:
        mc.surveys.collect(tmp_path / "two.json", second, id="token")
    assert caught.value.code == "guarantee.failed"
    result = mc.surveys.collect(
        tmp_path / "two.json", second, id="token", earlier=[(tmp_path / "one.json", first)]
    )
    assert result.audit["k"] >= K


def test_combinations_against_enumeration():
    """No answer is withheld if nothing is exposed, and whatever is published is not exposed."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        names = [str(i) for i in range(12)]
        labels = rng.integers(0, 2, 12)
        first = {name: int(rng.integers(0, 2)) for name in names if rng.random() < 0.6}
        now = rng.random(12) < 0.6
        respondents = [name for name, each in zip(names, now, strict=True) if each]
        kept = combine_waves(respondents, labels[now], np.ones(now.sum(), bool), [first], 2)
        released = {
            name: cell
            for name, cell, keep in zip(respondents, labels[now].tolist(), kept, strict=True)
            if keep
        }
        everybody = set(released) | set(first)
        counts = Counter((first.get(name), released.get(name)) for name in everybody)
        small = [key for key, n in counts.items() if n < 2]
        alone = {key for key, n in Counter(first.values()).items() if n < 2}
        assert all(key[1] is None and key[0] in alone for key in small)


@pytest.mark.parametrize(
    "options, code",
    [
        ({}, "option.conflict"),
        ({"id": "token", "below": "merge"}, "option.conflict"),
        ({"id": "token", "late": True}, "option.conflict"),
    ],
)
def test_waves_need_an_id_and_suppression(cells, design, options, code):
    answers = answers_of(design, took_part(FIRST, 0))
    with pytest.raises(OptionError) as caught:
        mc.surveys.collect(cells, answers, earlier=[(cells, answers)], **options)
    assert caught.value.code == code


def test_an_earlier_wave_must_be_released_and_complete(cells, design):
    answers = answers_of(design, took_part(FIRST, 0))
    earlier = [(cells, answers)]
    with pytest.raises(OptionError):
        mc.surveys.collect(cells, answers, id="token", earlier=earlier)
    mc.surveys.collect(cells, answers, id="token").publish(cells.with_name("out.csv"))
    part = {name: values[:50] for name, values in answers.items()}
    with pytest.raises(mc.MicrocellError) as caught:
        mc.surveys.collect(design.cells, answers, id="token", earlier=[(cells, part)])
    assert caught.value.code == "data.invalid"
