"""A design is released once: the ledger, repetition, late answers, and what is reported."""

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import microcell as mc
from microcell.errors import GuaranteeError, OptionError, TableError, TooFewRecordsError
from microcell.surveys.evidence import compare_participation
from microcell.surveys.ledger import Ledger
from microcell.surveys.survey_cells import load_survey_cells
from tests.raising import raises
from tests.surveys.test_collecting import K, make_line


@pytest.fixture
def cells(tmp_path):
    make_line().save(tmp_path / "cells.json")
    return tmp_path / "cells.json"


def answers(numbers, first=0):
    n = len(numbers)
    return pl.DataFrame(
        {
            "cell": numbers,
            "income": np.arange(first, first + n),
            "who": [f"w{first + i}" for i in range(n)],
        }
    )


FIRST = [1, 1, 1, 3, 3, 3, 3, 0]


def publish(cells, table, out, **options):
    return mc.surveys.collect(cells, table, **options).publish(cells.parent / out)


def test_the_same_answers_give_the_same_bytes(cells):
    publish(cells, answers(FIRST), "a.csv", id="who")
    publish(cells, answers(FIRST), "b.csv", id="who")
    folder = cells.parent
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    first, second = (
        json.loads((folder / f"{name}.csv.manifest.json").read_text()) for name in "ab"
    )
    assert first["created"] == second["created"]
    assert first["order_key"] == second["order_key"]
    with raises(OptionError, "option.conflict", option="order_key"):
        mc.surveys.collect(cells, answers(FIRST), id="who", order_key="0" * 32)


@pytest.mark.parametrize("options", [{}, {"below": "merge"}, {"drop": ["income"]}])
def test_other_answers_or_settings_are_refused(cells, options):
    publish(cells, answers(FIRST), "a.csv", id="who")
    table = answers([*FIRST, 1]) if not options else answers(FIRST)
    with raises(GuaranteeError, "guarantee.design_released", releases=1):
        mc.surveys.collect(cells, table, id="who", **options)
    assert not (cells.parent / "b.csv").exists()


def test_a_collection_that_was_not_published_binds_nothing(cells):
    mc.surveys.collect(cells, answers(FIRST), id="who")
    publish(cells, answers([*FIRST, 1]), "a.csv", id="who")


def test_a_collection_begun_before_another_release_is_refused(cells):
    slow = mc.surveys.collect(cells, answers([*FIRST, 1]), id="who")
    publish(cells, answers(FIRST), "a.csv", id="who")
    with raises(GuaranteeError, "guarantee.design_released"):
        slow.publish(cells.parent / "b.csv")
    assert not (cells.parent / "b.csv").exists()


def test_a_failed_write_leaves_the_design_free(cells, monkeypatch):
    result = mc.surveys.collect(cells, answers(FIRST), id="who")

    def fail(*arguments, **options):
        raise TableError("disk full", code="table.unwritable")

    with monkeypatch.context() as patch:
        patch.setattr("microcell.surveys.collection.publish_table", fail)
        with raises(TableError, "table.unwritable"):
            result.publish(cells.parent / "a.csv")
    publish(cells, answers([*FIRST, 1]), "a.csv", id="who")


def test_late_answers_form_a_block_in_unused_cells_or_wait(cells):
    publish(cells, answers(FIRST), "a.csv", id="who")
    late = pl.concat([answers(FIRST), answers([1, 1, 1, 1, 2, 2], 8)])
    with raises(TooFewRecordsError, "guarantee.too_few_records"):
        mc.surveys.collect(cells, late, id="who", late=True)  # cell 1 was used, cell 2 has two
    more = pl.concat([late, answers([2, 0, 0], 14)])
    result = publish(cells, more, "b.csv", id="who", late=True)
    # Those of cell 2, and of cell 0 with the one suppressed before; those of cell 1 wait.
    assert sorted(np.asarray(result.table["income"]).tolist()) == [7, 12, 13, 14, 15, 16]
    assert result.manifest.survey.late
    first = pl.read_csv(cells.parent / "a.csv")
    second = pl.read_csv(cells.parent / "b.csv")
    assert not set(first["age"]) & set(second["age"])
    assert not set(first["income"]) & set(second["income"])
    assert min(second["age"].value_counts()["count"]) >= K
    again = publish(cells, more, "c.csv", id="who", late=True)
    assert again.manifest.created == result.manifest.created
    assert (cells.parent / "b.csv").read_bytes() == (cells.parent / "c.csv").read_bytes()


def test_late_answers_need_an_earlier_release_and_the_same_id(cells):
    with raises(OptionError, "option.conflict", option="late"):
        mc.surveys.collect(cells, answers(FIRST), id="who", late=True)
    with raises(OptionError, "option.conflict", option="late"):
        mc.surveys.collect(make_line(), answers(FIRST), id="who", late=True)
    publish(cells, answers(FIRST), "a.csv", id="who")
    with raises(OptionError, "option.conflict", option="late"):
        mc.surveys.collect(cells, answers([2, 2, 2], 20), drop=["who"], late=True)


def test_ledgers_are_private_bound_to_the_design_and_hold_no_answer(cells):
    publish(cells, answers(FIRST), "a.csv", id="who")
    ledger = cells.parent / "cells.ledger.json"
    assert ledger.stat().st_mode & 0o077 == 0
    content = json.loads(ledger.read_text())
    assert "w3" not in json.dumps(content["releases"])
    ledger.write_text(json.dumps(content | {"design": "0" * 64}))
    with raises(TableError, "table.mismatch"):
        mc.surveys.collect(cells, answers(FIRST), id="who")
    ledger.write_text("{}")
    with raises(TableError, "table.malformed"):
        mc.surveys.collect(cells, answers(FIRST), id="who")


def test_a_copy_of_the_cells_file_shares_the_ledger(cells):
    publish(cells, answers(FIRST), "a.csv", id="who")
    copy = Path(shutil.copy(cells, cells.with_name("copy.json")))
    with raises(GuaranteeError, "guarantee.design_released"):
        mc.surveys.collect(copy, answers([*FIRST, 1]), id="who")
    publish(copy, answers(FIRST), "b.csv", id="who")  # the same answers: the same release
    assert (cells.parent / "a.csv").read_bytes() == (cells.parent / "b.csv").read_bytes()
    assert not cells.with_name("copy.ledger.json").exists()


@pytest.mark.parametrize("source", ["elsewhere", "memory"])
def test_another_release_in_the_same_folder_is_noticed(cells, source, tmp_path_factory):
    publish(cells, answers(FIRST), "a.csv", id="who")
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "cells.json"
    shutil.copy(cells, elsewhere)
    used = elsewhere if source == "elsewhere" else mc.load_cells(elsewhere)
    result = mc.surveys.collect(used, answers([*FIRST, 1]), id="who")
    with raises(GuaranteeError, "guarantee.design_released"):
        result.publish(cells.parent / "b.csv")
    assert not (cells.parent / "b.csv").exists()
    assert not elsewhere.with_name("cells.ledger.json").exists()


def test_of_two_collections_at_once_one_is_released(cells):
    """Both were collected before either was published, by two processes."""
    table = [answers(FIRST), answers([*FIRST, 1])]
    results = [mc.surveys.collect(cells, each, id="who") for each in table]
    outcomes = []

    def release(number):
        try:
            results[number].publish(cells.parent / f"{number}.csv")
            outcomes.append("released")
        except GuaranteeError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=release, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["guarantee.design_released", "released"]


def test_a_failed_write_withdraws_only_its_own_release(cells):
    publish(cells, answers(FIRST), "a.csv", id="who")
    ledger = Ledger.beside(cells, mc.load_cells(cells).digest)
    (entry,) = ledger.releases
    before = replace(ledger, releases=())  # as a process saw it that began earlier
    before.withdraw(replace(entry, answers="0" * 64))
    assert Ledger.beside(cells, ledger.design).releases == (entry,)


# -------------------------------------------------------------------------------------- reporting


def test_the_report_says_what_was_suppressed(cells):
    result = mc.surveys.collect(cells, answers(FIRST), id="who")
    assert (result.audit.rows_original, result.audit.rows_released) == (8, 7)
    notes = " ".join(result.audit.notes)
    assert "8 answers arrived: 7 are published and 1 was suppressed" in notes
    assert "1 cell of 4" in notes
    for form in ("text", "html"):
        assert "7 are published and 1 was suppressed" in " ".join(result.render(form).split())


def test_participation_is_compared_with_the_assumption():
    line = load_survey_cells(make_line())  # 4 cells of 9, participation 0.5
    fits = compare_participation(line, np.array([4, 5, 4, 5]))
    assert fits.expected == 18
    assert not fits.refuted
    assert compare_participation(line, np.array([1, 1, 2, 1])).refuted  # far too few
    uneven = compare_participation(line, np.array([9, 0, 9, 0]))
    assert uneven.p_total > 0.5
    assert uneven.p_cells < 1e-3
    assert uneven.refuted


def test_the_test_of_participation_keeps_its_level():
    line = load_survey_cells(make_line())
    rng = np.random.default_rng(0)
    refuted = [
        compare_participation(line, rng.binomial(9, 0.5, size=4)).refuted for _ in range(1000)
    ]
    assert np.mean(refuted) < 0.01
