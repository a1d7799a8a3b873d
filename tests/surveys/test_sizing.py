"""The size of cells: the paper's table, the figure, and what is refused."""

import pytest

import microcell as mc

SIZES = {
    (10, 0.75): (25, 27, 29),
    (10, 0.5): (43, 48, 53),
    (50, 0.75): (88, 91, 95),
    (50, 0.5): (144, 151, 159),
}


@pytest.mark.parametrize("given", SIZES)
def test_the_sizes_of_the_paper(given):
    for failure, size in zip((1e-4, 1e-5, 1e-6), SIZES[given], strict=True):
        assert mc.surveys.survey_size(*given, failure).anonymity.size == size


def test_a_table_of_such_cells_fails_as_its_cells_do():
    found = mc.surveys.survey_size(10, 0.75, 1e-5, 27 * 40)
    assert found.cells == 40
    assert found.table_failure == pytest.approx(
        mc.surveys.table_failure([found.anonymity.cell_failure] * 40), rel=1e-9
    )
    assert mc.surveys.survey_size(10, 1.0, 1e-5).anonymity.size == 10


@pytest.mark.parametrize("failure", [0.5, 1e-5, 1e-300])
def test_the_figure_is_drawn_and_the_same_each_time(failure):
    found = mc.surveys.survey_size(5, 0.6, failure)
    assert mc.plot.survey_size(found) == mc.plot.survey_size(found)
    assert b"mathdefault" not in mc.plot.survey_size(found)
    assert mc.plot.survey_size(found, format="pdf").startswith(b"%PDF-")
    with pytest.raises(mc.errors.OptionError, match="form"):
        mc.plot.survey_size(found, format="gif")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ((1, 0.5, 0.1), mc.errors.OptionError),
        ((5, 0.0, 0.1), mc.errors.OptionError),
        ((5, 1.1, 0.1), mc.errors.OptionError),
        ((5, 0.5, 1.0), mc.errors.OptionError),
        ((5, 0.5, 0.1, 0), mc.errors.OptionError),
        ((5, 0.5, 1e-9, 6), mc.errors.TooFewRecordsError),
    ],
)
def test_wrong_numbers_are_refused(given, error):
    with pytest.raises(error):
        mc.surveys.survey_size(*given)
