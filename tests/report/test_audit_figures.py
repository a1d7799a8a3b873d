"""Figures of an audit: correlations, quantiles and linkage."""

import re

import numpy as np
import pytest

from microcell.model import Correlations, Quantiles
from microcell.report.figures.audit import draw_correlations, draw_linkage, draw_quantiles
from microcell.report.figures.base import style
from tests.report.examples import correlations


@pytest.fixture(autouse=True)
def common_style():
    with style():
        yield


def names(count):
    return [f"column {place}" for place in range(count)]


def words(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_correlations_are_drawn_before_after_and_as_a_change():
    before = np.array([[1, -0.5, 0.25], [-0.5, 1, 0], [0.25, 0, 1.0]])
    after = np.array([[1, -0.25, 0.3], [-0.25, 1, 0], [0.3, 0, 1.0]])
    pictures = draw_correlations(Correlations(("age", "pay", "tsh"), before, after))
    shown = [
        sorted(word for word in words(picture.svg) if re.fullmatch(r"-?\d\.\d\d", word))
        for picture in pictures
    ]
    for numbers, matrix in zip(shown, (before, after, after - before), strict=True):
        assert numbers == sorted(f"{value:.2f}" for value in matrix.ravel())
    assert "Strongest: age and pay, -0.50." in pictures[0].caption
    assert "Strongest: age and tsh, +0.30." in pictures[1].caption
    assert "Largest: age and pay, +0.25." in pictures[2].caption


@pytest.mark.parametrize("count", [2, 8, 9, 20])
def test_all_columns_are_named_if_they_fit(count):
    for picture in draw_correlations(correlations(names(count))):
        assert {name for name in words(picture.svg) if name.startswith("column")} == set(
            names(count)
        )
        assert "Shown:" not in picture.caption
        assert ("hollow" in picture.caption) == (count > 8)
        numbered = [word for word in words(picture.svg) if re.fullmatch(r"-?\d\.\d\d", word)]
        assert len(numbered) == (count**2 if count <= 8 else 0)


def test_only_the_columns_that_changed_most_are_drawn_if_there_are_many():
    matrices = correlations(names(30), change=0.0)
    after = matrices.after.copy()
    after[29, 3] = after[3, 29] = -0.9
    pictures = draw_correlations(Correlations(matrices.names, matrices.before, after))
    for picture in pictures:
        assert "Shown: the 20 of 30 columns with the largest changes." in picture.caption
        assert {"column 3", "column 29"} <= set(words(picture.svg))
        assert len({name for name in words(picture.svg) if name.startswith("column")}) == 20


@pytest.mark.parametrize("matrix", [np.eye(3), np.full((3, 3), np.nan), np.ones((3, 3))])
def test_degenerate_matrices_are_drawn(matrix):
    assert len(draw_correlations(Correlations(("a", "b", "c"), matrix, np.eye(3)))) == 3


def test_unchanged_correlations_are_stated():
    assert draw_correlations(Correlations(("a", "b"), np.eye(2), np.eye(2)))[2].caption.endswith(
        "none."
    )


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_columns_have_no_figure(count):
    assert draw_correlations(Correlations(tuple(names(count)), np.eye(count), np.eye(count))) == ()


def quantiles(before, after, unit=None):
    before, after = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    return draw_quantiles(Quantiles("age", np.linspace(0, 1, len(before)), before, after, unit), 0)


def test_quantiles_show_both_ends_of_the_range():
    picture = quantiles([10, 20, 30], [12, 20, 28])
    assert words(picture.svg).count("10") == words(picture.svg).count("30") == 2
    assert picture.caption.startswith("age: published against original quantiles")
    assert picture.caption.endswith("10 % of the range, above the diagonal.")
    assert quantiles([10, 20, 30], [10, 15, 30]).caption.endswith(
        "25 % of the range, below the diagonal."
    )


def test_unchanged_quantiles_lie_on_the_diagonal():
    assert "all dots lie on the diagonal" in quantiles([1, 2, 3], [1, 2, 3]).caption
    assert "all dots lie on the diagonal" in quantiles([5, 5], [5, 5]).caption


@pytest.mark.parametrize(
    "before, after",
    [
        ([-1.7e308, 1.7e308], [0, 0]),
        ([0, 5e-324], [0, 0]),
        ([1.7e9, 1.7e9 + 1], [1.7e9, 1.7e9]),
        ([5], [5]),
    ],
)
def test_quantiles_of_extreme_scales_are_drawn(before, after):
    assert "<svg" in quantiles(before, after).svg


def test_quantiles_of_dates_and_durations():
    assert "1997-05-19" in words(quantiles([1e4, 2e4], [1e4, 2e4], unit="D").svg)
    assert "Original (seconds)" in words(quantiles([0, 60], [0, 60], unit="seconds").svg)


def test_quantiles_without_finite_values_have_no_figure():
    assert quantiles([np.nan, np.inf], [1, 2]) is None
    assert quantiles([], []) is None


def test_linkage_has_a_bar_per_number_of_known_columns():
    picture = draw_linkage(np.array([0.01, 0.125, 0.1]), 5)
    assert {"1", "2", "3", "1 %", "12 %", "10 %", "1 / k = 20 %"} <= set(words(picture.svg))
    assert "It is largest for 2 columns: 12 %." in picture.caption
    assert "The dashed line is 1 / k = 20 %." in picture.caption


@pytest.mark.parametrize(
    "shares, k", [([0.0], 5), ([1.0], 1), ([np.nan, 0.1], 0), (np.linspace(0, 1, 40), 3)]
)
def test_degenerate_linkage_is_drawn(shares, k):
    assert "<svg" in draw_linkage(np.array(shares), k).svg
