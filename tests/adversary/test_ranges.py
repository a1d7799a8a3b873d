"""Attacks on published extremes: ranges of cells, public reports and certificates."""

import json
import re
from fractions import Fraction

import numpy as np
import pytest

import microcell as mc
from microcell.kinds.rounding import column_step, range_text, step_above
from microcell.report import certify, render

OUTLIER = 9_876_543


def incomes(n=60, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.integers(20_000, 80_000, n)
    values[7] = OUTLIER
    return {"income": values, "ill": rng.choice(list("abc"), n)}


def bounds(text):
    match = re.fullmatch(r"(-?[\d.]+(?:e-?\d+)?)(?: to |-)(-?[\d.]+(?:e-?\d+)?)", text)
    return Fraction(match[1]), Fraction(match[2])


def schema():
    return mc.Schema(quasi=[mc.Column("income", publish="range")], confidential=["ill"])


@pytest.mark.parametrize("seed", range(3))
def test_a_bound_is_no_better_guess_of_the_extreme_than_the_cell_is_wide(seed):
    table = incomes(seed=seed)
    release = mc.anonymize(table, schema(), k=3, method="mdav")
    labels, texts = release.partition.labels, release.table["income"]
    gaps = []
    for cell in range(labels.max() + 1):
        members = table["income"][labels == cell]
        low, high = bounds(texts[labels == cell][0])
        assert low <= members.min()
        assert members.max() <= high
        assert high - low >= 5_000  # a tenth of the interquartile range, in a round number
        if OUTLIER in members:
            assert (low, high) == (0, 10_000_000)
        gaps += [float(members.min() - low), float(high - members.max())]
    # A bound is a value of the table no more often than a number on the same grid is.
    assert np.mean(np.array(gaps) == 0) < 0.1
    again = mc.anonymize(table, schema(), k=3, method="mdav")
    assert texts.tolist() == again.table["income"].tolist()


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e9, 1e300])
def test_ranges_contain_every_member_at_any_scale(scale):
    rng = np.random.default_rng(2)
    values = rng.normal(size=300) * scale
    step = column_step(values, whole=False)
    for _ in range(50):
        some = rng.choice(values, 4)
        low, high = bounds(range_text(some.min(), some.max(), step))
        assert low <= Fraction(str(some.min()))
        assert Fraction(str(some.max())) <= high
        assert high > low


def test_the_step_does_not_depend_on_one_record():
    values = np.random.default_rng(3).normal(50, 10, 500)
    plain = column_step(values, whole=False)
    for extreme in (-1e9, 51.0, 1e12):
        assert column_step(np.append(values, extreme), whole=False) == plain


def test_steps_are_round():
    rng = np.random.default_rng(4)
    for size in 10.0 ** rng.uniform(-300, 300, 200):
        step = step_above(size)
        assert step.lead in (1, 2, 5)
        assert Fraction(size) <= step.size <= Fraction(size) * Fraction(5, 2)


def test_public_reports_and_certificates_contain_no_extreme():
    table = incomes()
    release = mc.anonymize(table, schema(), k=3, method="mdav")
    audit = mc.audit(table, release.table, schema())
    low, manifest = table["income"].min(), release.manifest.as_dict()
    texts = [
        render(audit, style, manifest=manifest, audience="public")
        for style in ("text", "json", "html")
    ]
    certificate = certify(audit, manifest=manifest, require={"k": 3})
    texts += [release.manifest.to_json(), certificate.decode("latin-1")]
    for text in texts:
        for value in (OUTLIER, low):
            for form in (f"{value}", f"{value:,}", f"{value:.4g}", f"{value:.5g}"):
                assert form not in text
    public = json.loads(texts[1])
    assert not {"comparisons", "quantiles", "projection"} & set(public)
