"""Cell sizes: the paper's table, the figure and invalid input."""

import pytest

import microcell as mc
from microcell.errors import OptionError, TooFewRecordsError
from tests.raising import raises

SIZES = {
    (10, 0.75): (25, 27, 29),
    (10, 0.5): (43, 48, 53),
    (50, 0.75): (88, 91, 95),
    (50, 0.5): (144, 151, 159),
}


@pytest.mark.parametrize("arguments", SIZES)
def test_sizes_of_the_paper(arguments):
    for failure, size in zip((1e-4, 1e-5, 1e-6), SIZES[arguments], strict=True):
        assert mc.surveys.size(*arguments, failure).anonymity.size == size


def test_table_failure_follows_from_the_cells():
    result = mc.surveys.size(10, 0.75, 1e-5, 27 * 40)
    assert result.cells == 40
    assert result.table_failure == pytest.approx(
        mc.surveys.table_failure([result.anonymity.cell_failure] * 40), rel=1e-9
    )
    assert mc.surveys.size(10, 1.0, 1e-5).anonymity.size == 10


@pytest.mark.parametrize("failure", [0.5, 1e-5, 1e-300])
def test_figure_is_reproducible(failure):
    result = mc.surveys.size(5, 0.6, failure)
    assert mc.plot.survey_size(result) == mc.plot.survey_size(result)
    assert b"mathdefault" not in mc.plot.survey_size(result)
    assert mc.plot.survey_size(result, format="pdf").startswith(b"%PDF-")
    with raises(mc.errors.OptionError, "option.unknown", option="format"):
        mc.plot.survey_size(result, format="gif")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ((1, 0.5, 0.1), "k"),
        ((5, 0.0, 0.1), "participation"),
        ((5, 1.1, 0.1), "participation"),
        ((5, 0.5, 1.0), "failure"),
        ((5, 0.5, 0.1, 0), "records"),
    ],
)
def test_numbers_out_of_range(arguments, option):
    with raises(OptionError, "option.out_of_range", option=option):
        mc.surveys.size(*arguments)


def test_fewer_candidates_than_one_cell_needs():
    with raises(TooFewRecordsError, "guarantee.too_few_records", records=6):
        mc.surveys.size(5, 0.5, 1e-9, 6)
