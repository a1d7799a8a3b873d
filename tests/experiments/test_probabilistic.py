"""Surveys of uncertain participation: every printed number again, and against exact fractions."""

import json
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from experiments import probabilistic
from experiments._census10k import smoothed_bootstrap
from experiments._pcl import agree, same_digits
from experiments._profiles import has_classics

pytestmark = [
    pytest.mark.skipif(
        not has_classics(), reason="the classic data sets are not here: set MICROCELL_DATA"
    ),
    pytest.mark.timeout(1800),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("probabilistic")
    probabilistic.study("quick").write(target)
    return target


@pytest.fixture(scope="module")
def about(folder):
    return json.loads((folder / "findings.json").read_text(encoding="utf-8"))


def of(about, item):
    return [finding for finding in about["findings"] if finding["item"] == item]


def masses(n, participation, k):
    """P{K = 0}, ..., P{K = k - 1} as fractions."""
    q = Fraction(participation).limit_denominator(100)
    return [math.comb(n, j) * q**j * (1 - q) ** (n - j) for j in range(k)]


def failure(n, participation, k):
    return sum(masses(n, participation, k)[1:])


@pytest.mark.parametrize("case", probabilistic.TABLE_III, ids=str)
def test_the_printed_table_of_sizes_is_correct(case):
    """Check the numbers transcribed from the paper with fractions, independently of the package."""
    k, participation, accepted = case
    size, *printed = probabilistic.TABLE_III[case]
    n = int(size)
    assert failure(n, participation, k) <= Fraction(accepted) < failure(n - 1, participation, k)
    moment = sum(j * mass for j, mass in enumerate(masses(n, participation, k)))
    record = moment / n
    exact = [
        failure(n, participation, k),
        moment / failure(n, participation, k),
        record,
        record / Fraction(participation),
    ]
    assert [
        same_digits(text, float(value)) for text, value in zip(printed, exact, strict=True)
    ] == [True] * 4


@pytest.mark.parametrize("case", probabilistic.TABLE_IV, ids=str)
def test_the_printed_table_of_table_failures_is_correct(case):
    k, records = case
    for accepted, printed in zip(probabilistic.FAILURES, probabilistic.TABLE_IV[case], strict=True):
        n = int(probabilistic.TABLE_III[k, 0.75, accepted][0])
        cells, rest = divmod(records, n)
        logs = (cells - 1) * math.log1p(-failure(n, 0.75, k)) + math.log1p(
            -failure(n + rest, 0.75, k)
        )
        assert same_digits(printed, -math.expm1(logs))


@pytest.mark.parametrize(("item", "count"), [("Table II", 7), ("Table III", 12), ("Table IV", 18)])
def test_every_printed_row_is_reproduced(about, item, count):
    actual = of(about, item)
    assert len(actual) == count
    assert {finding["verdict"] for finding in actual} == {"reproduced"}


def test_the_published_formula_loses_digits_and_ours_does_not(about):
    (actual,) = of(about, "Fig. 6")
    assert actual["verdict"] == "better"
    assert (
        abs(probabilistic.failure_as_published(48, 20, 0.5) - probabilistic.exact_failure(48, 20))
        < 1e-12
    )


@pytest.mark.parametrize("item", ["Fig. 7", "Fig. 8", "Fig. 9", "Fig. 10", "Fig. 13 (b)"])
def test_results_without_data_are_reproduced(about, item):
    actual = of(about, item)
    assert actual
    assert all(finding["verdict"] == "reproduced" for finding in actual)


@pytest.mark.parametrize("item", ["Fig. 11", "Fig. 12"])
def test_uncertainty_costs_distortion_and_failure_probability_hardly_matters(about, item):
    claims = [finding for finding in of(about, item) if finding["theirs"] != "MDAV alone"]
    rises, failures = claims[::2], claims[1::2]
    assert len(rises) == len(failures) == (1 if item == "Fig. 11" else 2)
    assert {finding["verdict"] for finding in rises} == {"reproduced"}
    for finding in failures:
        by_failures, each, by_half = (
            float(number) for number in re.findall(r"([+-][\d.]+) %", finding["ours"])
        )
        assert 0 < by_failures < by_half
        assert finding["verdict"] == ("reproduced" if each < 5 else "differs")


def test_the_cost_falls_with_k_and_dimension(folder):
    rows = np.genfromtxt(folder / "price.csv", delimiter=",", skip_header=1)
    assert (np.diff(rows[:, 1:], axis=1) < 0).all()
    assert (rows[-1, 1:] < rows[0, 1:]).all()
    assert (rows[:, 1:] > 1).all()


def test_substitutes_are_named(about):
    assert all(
        "smoothed bootstrap" in f["why"]
        for f in of(about, "Fig. 12")
        if f["theirs"] != "MDAV alone"
    )


def test_every_figure_is_reproduced_or_listed_as_omitted(about):
    shown = {
        int(n)
        for entry in about["shown"]
        for n in re.findall(r"\d+", entry["item"])
        if "Fig" in entry["item"]
    }
    left = {int(item[5:]) for item in probabilistic.LEFT_OUT if item.startswith("Fig")}
    assert shown | left == set(range(1, 14))
    assert not shown & left


def test_files_exist_are_small_and_are_reproducible(about, folder):
    for entry in about["shown"]:
        assert 0 < (folder / entry["file"]).stat().st_size < 200_000
        assert b"<dc:date>" not in (folder / entry["file"]).read_bytes()


def test_the_bootstrap_keeps_means_and_covariance():
    X = (
        np.random.default_rng(0).normal(size=(500, 3))
        @ np.array([[1.0, 0.5, 0], [0, 1, 0.3], [0, 0, 2]])
        + 7
    )
    drawn = smoothed_bootstrap(X, 60_000)
    assert np.allclose(drawn.mean(axis=0), X.mean(axis=0), atol=0.05)
    assert np.allclose(np.cov(drawn.T), np.cov(X.T), atol=0.12)
    assert len(np.unique(drawn, axis=0)) == 60_000


@pytest.mark.parametrize(
    ("printed", "value", "same"),
    [
        ("4.31e-05", 4.3149e-5, True),
        ("4.31e-05", 4.3151e-5, False),
        ("8.80", 8.796, True),
        ("8.8", 8.74, False),
        ("25", 25.0, True),
    ],
)
def test_digits_are_compared_as_printed(printed, value, same):
    assert same_digits(printed, value) is same


def test_a_list_is_not_a_claim():
    """A list of claims is true whatever it holds, so that it must not pass for one."""
    assert (agree(True), agree(True, False)) == ("reproduced", "differs")
    for wrong in ([], [False], "no", 1, None):
        with pytest.raises(TypeError):
            agree(wrong)
    with pytest.raises(TypeError):
        agree()
