"""Properties of any audit: results of plain loops, and changes that must not affect measures."""

import datetime
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from math import exp, log, log2

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import microcell as mc
from microcell.auditing import audit
from microcell.model import Column, Schema
from tests.small_tables import table

QUASI = (
    Column("age", kind="numeric"),
    Column("day", kind="datetime"),
    Column("job", kind="nominal"),
)
SCHEMA = Schema(
    quasi=QUASI,
    strata=["region"],
    confidential=[Column("pay", kind="numeric"), Column("ill", kind="nominal")],
)
KEYS = ("age", "day", "job", "region")
DAY = datetime.date(2020, 2, 27)


@dataclass(frozen=True)
class Pair:
    """An original and a release as lists by column, and the schema of both."""

    before: dict[str, list]
    after: dict[str, list]
    schema: Schema = SCHEMA

    def audit(self):
        return audit(
            table(**self.before),
            table(**self.after),
            self.schema,
            pairs=np.arange(len(self.after["age"])),
        )


def pick(rng, choices, n):
    return [choices[at] for at in rng.integers(0, len(choices), size=n)]


def make_records(rng, n, *, blank=None):
    """Records with numbers, dates and categories, with gaps unless ``blank`` is "no"."""
    gaps = [] if blank == "no" else [None]
    return {
        "age": pick(rng, [*range(18, 18 + int(rng.integers(1, 12))), *gaps], n),
        "day": pick(rng, [*(DAY + datetime.timedelta(days=at) for at in range(5)), *gaps], n),
        "job": pick(rng, ["cook", "nurse", "smith", *gaps], n),
        "region": pick(rng, ["north", "south"][: int(rng.integers(1, 3))], n),
        "pay": pick(rng, [*range(int(rng.integers(1, 8))), *gaps], n),
        "ill": pick(rng, ["flu", "gout", "mumps", *gaps][: int(rng.integers(1, 5))], n),
    }


@st.composite
def pairs(draw, blank=None):
    """A table, and a release in which the records of a class publish the values of any records."""
    n, rng = draw(st.integers(1, 24)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    before = make_records(rng, n, blank=blank)
    classes = rng.integers(0, draw(st.integers(1, n)), size=n)
    after = dict(before)
    for name in ("age", "day", "job"):
        shown = pick(rng, before[name], n)
        after[name] = [shown[at] for at in classes]
    return Pair(before, after)


def reordered(columns, rows):
    return {name: [column[row] for row in rows] for name, column in columns.items()}


OF_RELEASE = (
    *("k", "classes", "records", "identifiers_", "columns_", "values_", "prosecutor_", "marketer"),
    *("p_sensitivity", "l_", "t_", "delta_disclosure", "disclosed_bits", "homogeneous_"),
)
"""How measures begin that need no comparison of published values with the original's."""


def assert_same(actual, expected, *, only=("",)):
    """The measures that begin so are the same, and classes are."""
    each = [
        {name: side[name] for name in side.measures if name.startswith(only)}
        for side in (actual, expected)
    ]
    assert each[0] == pytest.approx(each[1], abs=1e-9)
    assert sorted(actual.class_sizes.tolist()) == sorted(expected.class_sizes.tolist())
    assert {name: sorted(sizes.tolist()) for name, sizes in actual.homogeneous.items()} == {
        name: sorted(sizes.tolist()) for name, sizes in expected.homogeneous.items()
    }
    if only == ("",):
        np.testing.assert_allclose(actual.linkage_by_known, expected.linkage_by_known)


# ------------------------------------------------------------------------------------- plain loops


def plain_classes(columns):
    """The rows of each class, by the values that they share."""
    classes = defaultdict(list)
    for row, shown in enumerate(zip(*(columns[key] for key in KEYS), strict=True)):
        classes[shown].append(row)
    return list(classes.values())


def plain_risk(classes, n):
    sizes = [len(rows) for rows in classes]
    return {
        "k": min(sizes),
        "classes": len(sizes),
        "records_below_2k": sum(size for size in sizes if size < 2 * min(sizes)) / n,
        "prosecutor_worst": 1 / min(sizes),
        "prosecutor_average": sum(size * (1 / size) for size in sizes) / n,
        "marketer": len(sizes) / n,
    }


def plain_distance(inside, everywhere, *, ordered):
    """Earth mover's distance of two lists: by steps between sorted values, or 1 for any two."""
    support = sorted(
        set(everywhere), key=lambda value: (value is not None, value if value is not None else 0)
    )
    gaps = [
        inside.count(value) / len(inside) - everywhere.count(value) / len(everywhere)
        for value in support
    ]
    if not ordered:
        return sum(abs(gap) for gap in gaps) / 2
    return sum(abs(sum(gaps[: at + 1])) for at in range(len(gaps))) / max(1, len(gaps) - 1)


def plain_recursive(inside):
    counts = sorted(Counter(inside).values(), reverse=True)
    return max(
        [place + 1 for place in range(len(counts)) if counts[0] < 3 * sum(counts[place:])],
        default=1,
    )


def plain_disclosure(classes, column, *, ordered):
    everywhere, total = len(column), Counter(column)
    groups = [[column[row] for row in rows] for rows in classes]
    entropies, divergences, ratios = [], [], []
    for inside in groups:
        shares = {value: count / len(inside) for value, count in Counter(inside).items()}
        tilts = {
            value: log2(share / (total[value] / everywhere)) for value, share in shares.items()
        }
        entropies.append(-sum(share * log(share) for share in shares.values()))
        divergences.append(sum(shares[value] * tilts[value] for value in shares))
        ratios.append(max(abs(tilt) for tilt in tilts.values()))
    alike = [inside for inside in groups if len(set(inside)) == 1]
    return {
        "p_sensitivity": min(len(set(inside)) for inside in groups),
        "l_diversity": min(len(set(inside)) for inside in groups),
        "l_entropy": exp(min(entropies)),
        "l_recursive": max(1, min(plain_recursive(inside) for inside in groups)),
        "t_closeness": max(plain_distance(inside, column, ordered=ordered) for inside in groups),
        "t_kullback": max(divergences),
        "delta_disclosure": max(ratios),
        "disclosed_bits": sum(
            len(inside) * bits for inside, bits in zip(groups, divergences, strict=True)
        )
        / everywhere,
        "homogeneous_classes": len(alike),
        "homogeneous_records": sum(map(len, alike)),
    }


@given(pairs())
def test_anonymity_and_disclosure_match_plain_loops(pair):
    actual, classes = pair.audit(), plain_classes(pair.after)
    expected = plain_risk(classes, len(pair.after["age"]))
    each = {
        name: plain_disclosure(classes, pair.after[name], ordered=ordered)
        for name, ordered in (("pay", True), ("ill", False))
    }
    for name, facts in each.items():
        expected |= {f"{base}.{name}": value for base, value in facts.items()}
    for base in each["pay"]:
        worst = max if actual.measures[base].lower_is_better else min
        expected[base] = worst(facts[base] for facts in each.values())
    assert {name: actual[name] for name in expected} == pytest.approx(expected, abs=1e-9)
    assert sorted(actual.class_sizes.tolist()) == sorted(map(len, classes))
    for name in each:
        alike = [len(rows) for rows in classes if len({pair.after[name][row] for row in rows}) == 1]
        assert sorted(actual.homogeneous[name].tolist()) == sorted(alike)


# -------------------------------------------------------------------------------------- invariances


@given(pairs(), st.randoms(use_true_random=False))
def test_row_order_does_not_matter(pair, random):
    rows = list(range(len(pair.after["age"])))
    random.shuffle(rows)
    assert_same(
        Pair(reordered(pair.before, rows), reordered(pair.after, rows)).audit(), pair.audit()
    )


@given(pairs(), st.randoms(use_true_random=False))
def test_column_order_does_not_matter(pair, random):
    names = random.sample(sorted(pair.before), len(pair.before))
    schema = replace(
        SCHEMA,
        quasi=random.sample(QUASI, 3),
        confidential=random.sample(SCHEMA.confidential, 2),
    )
    before, after = (
        {name: columns[name] for name in names} for columns in (pair.before, pair.after)
    )
    assert_same(Pair(before, after, schema).audit(), pair.audit())


@given(pairs())
def test_the_sign_of_a_quasi_identifier_does_not_matter(pair):
    before, after = (
        {**columns, "age": [None if age is None else -age for age in columns["age"]]}
        for columns in (pair.before, pair.after)
    )
    assert_same(Pair(before, after).audit(), pair.audit())


@given(pairs(blank="no"))
def test_the_sign_of_a_confidential_number_does_not_matter(pair):
    """Missing values always come first, so with them the distance may change."""
    before, after = (
        {**columns, "pay": [-pay for pay in columns["pay"]]}
        for columns in (pair.before, pair.after)
    )
    assert_same(Pair(before, after).audit(), pair.audit())


@given(
    pairs(blank="no"),
    st.sampled_from(["nowhere seen", None]),
    st.sampled_from(["cook", "nurse", "smith"]),
)
def test_a_category_published_under_an_unseen_name_or_as_missing(pair, name, job):
    """Classes stay the same; only comparisons with the original may change."""
    renamed = Pair(
        pair.before,
        {**pair.after, "job": [name if shown == job else shown for shown in pair.after["job"]]},
    )
    assert_same(renamed.audit(), pair.audit(), only=OF_RELEASE)


@given(pairs(blank="no"), st.data())
def test_index_labels_do_not_matter(pair, data):
    n = len(pair.after["age"])
    labels = data.draw(st.lists(st.integers(0, 3), min_size=2 * n, max_size=2 * n))
    frames = pd.DataFrame(pair.before, index=labels[:n]), pd.DataFrame(pair.after, index=labels[n:])
    assert_same(mc.audit(*frames, SCHEMA), mc.audit(pair.before, pair.after, SCHEMA))


# ------------------------------------------------------------------------------------------- bounds


@given(pairs())
def test_bounds(pair):
    actual, n = pair.audit(), len(pair.after["age"])
    assert actual.class_sizes.sum() == n
    # Each class links its own records at most once in expectation.
    for name in ("linkage", "linkage_one", "linkage_two", "linkage_some"):
        assert 0 <= actual[name] <= actual["classes"] / n + 1e-12
    assert actual["classes"] / n <= 1 / actual["k"] + 1e-12
    assert (
        (actual.linkage_by_known >= 0) & (actual.linkage_by_known <= actual["classes"] / n + 1e-12)
    ).all()
    for name in ("pay", "ill"):
        assert 1 <= actual[f"l_diversity.{name}"] <= min(actual["k"], len(set(pair.after[name])))
        assert 1 - 1e-9 <= actual[f"l_entropy.{name}"] <= actual[f"l_diversity.{name}"] + 1e-9
        assert 1 <= actual[f"l_recursive.{name}"] <= actual[f"l_diversity.{name}"]
        assert 0 <= actual[f"t_closeness.{name}"] <= 1
        assert -1e-9 <= actual[f"disclosed_bits.{name}"] <= actual[f"t_kullback.{name}"] + 1e-9
        assert actual[f"homogeneous_classes.{name}"] <= actual["classes"]
    assert (
        0 <= actual["interval_disclosure"] <= 1
        if "interval_disclosure" in actual.measures
        else True
    )


@given(st.integers(2, 4), st.integers(0, 2**32 - 1), st.sampled_from(["mdav", "auto"]))
def test_a_release_links_at_most_one_record_in_k(k, seed, method):
    rng = np.random.default_rng(seed)
    people = make_records(rng, int(rng.integers(8 * k, 40)), blank="no")
    people["region"] = (["north", "south"] * len(people["age"]))[: len(people["age"])]
    release = mc.anonymize(people, SCHEMA, k=k, method=method)
    actual = mc.audit(people, release.table, SCHEMA).require(k=k)
    assert actual["linkage"] <= actual["classes"] / actual["records"] + 1e-12 <= 1 / k + 1e-9


@given(st.integers(1, 24), st.integers(0, 2**32 - 1))
def test_an_unchanged_table(n, seed):
    rng = np.random.default_rng(seed)
    people = make_records(rng, n, blank="no")
    people["age"] = rng.permutation(1000)[:n].tolist()
    actual = Pair(people, people).audit()
    assert (actual["k"], actual["classes"], actual["information_loss"]) == (1, n, 0.0)
    assert actual["linkage"] == pytest.approx(1)
    assert actual["values_changed"] == 0


@given(pairs())
def test_identical_quasi_identifiers(pair):
    n = len(pair.after["age"])
    same = {name: [pair.after[name][0]] * n for name in ("age", "day", "job", "region")}
    before = {**pair.before, "region": same["region"]}
    actual = Pair(before, {**pair.after, **same}).audit()
    assert (actual["k"], actual["classes"]) == (n, 1)
    assert actual["linkage"] == pytest.approx(1 / n)
    assert actual["t_closeness"] == 0
    assert actual["disclosed_bits"] == pytest.approx(0, abs=1e-9)
