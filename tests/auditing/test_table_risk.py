"""The risk of a single table: special uniques, column contributions, estimates, reports."""

import json
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy.special import hyp2f1

import microcell as mc
from microcell.errors import DataError, OptionError, SchemaError
from microcell.kernels.uniques import find_uniques
from microcell.measures import superpopulation

# ------------------------------------------------------------------------- minimal uniques


def plain_uniques(codes, persons, largest):
    """Every minimal unique as (row, mask), by comparing all rows with all others."""
    m, n = codes.shape
    found = set()
    for size in range(1, largest + 1):
        for columns in combinations(range(m), size):
            mask = sum(1 << j for j in columns)
            for i in range(n):
                same = (codes[list(columns)] == codes[list(columns), i : i + 1]).all(axis=0)
                subsets = (part for part in range(1, mask) if part & mask == part)
                if len(set(persons[same])) == 1 and not any((i, part) in found for part in subsets):
                    found.add((i, mask))
    return found


@pytest.mark.parametrize("case", range(12))
def test_minimal_uniques_are_those_of_a_plain_search(case):
    rng = np.random.default_rng(case)
    m, n = int(rng.integers(1, 6)), int(rng.integers(1, 24))
    codes = rng.integers(0, rng.integers(1, 6), (m, n))
    persons = rng.integers(0, n, n) if case % 2 else np.arange(n)
    largest = int(rng.integers(1, m + 1))
    table = {f"c{j}": codes[j] for j in range(m)} | {"who": persons}
    quasi = [f"c{j}" for j in range(m)]
    result = mc.risk(table, mc.Schema(quasi=quasi, person="who"))
    expected = plain_uniques(codes, persons, m)
    by_set = Counter(mask for _, mask in expected)
    masks = {sum(1 << quasi.index(c) for c in item.columns) for item in result.combinations}
    assert masks == set(by_set)
    for i in range(n):
        mine = [mask for row, mask in expected if row == i]
        smallest = min((mask.bit_count() for mask in mine), default=0)
        assert int(result.smallest[i]).bit_count() == smallest
        assert not mine or int(result.smallest[i]) in mine
        factorial = [1, 1, 2, 6, 24]
        assert result.scores[i] == sum(factorial[m - mask.bit_count()] for mask in mine)
    limited = find_uniques(
        codes.astype(np.int32), np.arange(n), largest, int(codes.max(initial=0)) + 1
    )
    if len({tuple(row) for row in codes.T.tolist()}) == n:
        alone = Counter(mask for _, mask in plain_uniques(codes, np.arange(n), largest))
        pairs = zip(limited.masks.tolist(), limited.counts.tolist(), strict=True)
        assert {mask: count for mask, count in pairs if count} == alone


def test_suda_scores_of_sdcmicro():
    """The two examples in the tests of sdcMicro's suda2."""
    book = {
        "age": ["20s"] * 7 + ["60s"],
        "gender": ["male"] * 4 + ["female"] * 3 + ["male"],
        "income": ["50k+"] * 2 + ["50k-"] * 6,
        "education": [*["highschool"] * 4, "university", "highschool", "middle", "university"],
    }
    result = mc.risk(book, mc.Schema(quasi=list(book)))
    assert result.scores.tolist() == [0, 0, 0, 0, 4, 2, 6, 8]
    simple = {"a": [2, 1, 1], "b": [0, 3, 0], "c": [0, 6, 0]}
    shares = [item.suda for item in mc.risk(simple, mc.Schema(quasi=list(simple))).columns]
    assert shares == [0.5, 0.375, 0.375]


def test_many_columns_limit_the_combinations(monkeypatch):
    monkeypatch.setattr("microcell.measures.special_uniques.MAX_SETS", 1000)
    rng = np.random.default_rng(0)
    table = {f"c{j}": rng.integers(0, 3, 40) for j in range(8)}
    result = mc.risk(table, mc.Schema(quasi=list(table)))
    assert result.largest == 2
    assert max(len(item.columns) for item in result.combinations) <= 2
    assert any("2 of 8" in note for note in result.notes)


# ------------------------------------------------------------------------- counts


def test_columns_and_classes_agree_with_plain_counting():
    table, schema = mc.sample_visits(120), None
    result = mc.risk(table)
    schema = mc.draft_schema(mc.inspect(table))
    data = mc.read(table)
    columns = [data.columns[name].factorize()[0] for name in result.keys]
    persons = np.array(data.columns[schema.person[0]].factorize()[0])

    def classes(kept):
        groups = {}
        for i in range(data.rows):
            groups.setdefault(tuple(column[i] for column in kept), set()).add(persons[i])
        return [len(group) for group in groups.values()]

    assert sorted(classes(columns)) == sorted(result.class_sizes.tolist())
    for j, item in enumerate(result.columns):
        rest = classes(columns[:j] + columns[j + 1 :])
        assert (item.k_without, item.unique_without) == (min(rest), rest.count(1))
        assert item.unique_alone == classes([columns[j]]).count(1)
    assert result["people_below_k"] == sum(size for size in result.class_sizes if size < 5)
    assert result.drafted
    assert result.person == schema.person


def test_records_at_risk_are_ordered_by_risk():
    table = {"age": [30, 30, 30, 41, 52, 52], "sex": ["f", "f", "f", "f", "m", "m"]}
    records = mc.risk(table, mc.Schema(quasi=["age", "sex"]), k=3).at_risk()
    assert [item.row for item in records] == [4, 5, 6]
    assert records[0].columns == ("age",)
    assert [item.people for item in records] == [1, 2, 2]


def test_k_is_that_of_an_audit():
    table, schema = mc.sample_survey(300), mc.sample_schema()
    release = mc.anonymize(table, schema, k=4, method="mdav")
    result = mc.risk(release.table, schema, population=3000)
    audit = mc.audit(table, release.table, schema, population=3000)
    for name in ("k", "classes", "prosecutor_average", "marketer", "journalist_worst"):
        assert result[name] == audit[name], name
    assert result["unique_people"] == 0
    assert not result.combinations
    assert result.population.measures["population_uniques"].value == 0


def test_what_is_refused():
    table = {"age": [30, 31], "w": [1.0, -1.0]}
    with pytest.raises(DataError) as error:
        mc.risk(table, mc.Schema(quasi=["age"], weight="w"))
    assert error.value.code == "data.bad_weight"
    with pytest.raises(OptionError) as wrong:
        mc.risk(table, mc.Schema(quasi=["age"], drop=["w"]), population=1)
    assert wrong.value.code == "option.out_of_range"
    with pytest.raises(SchemaError) as unknown:
        mc.risk(table, mc.Schema(quasi=["age"], person="who", drop=["w"]))
    assert unknown.value.code == "schema.unknown_column"
    with pytest.raises(DataError) as empty:
        mc.risk({"age": []}, mc.Schema(quasi=["age"]))
    assert empty.value.code == "data.empty"


# ------------------------------------------------------------------------- the population

FRANCDAT = {
    "key1": [1, 1, 1, 3, 4, 4, 6, 1],
    "key2": [2, 2, 2, 3, 3, 3, 2, 2],
    "key3": [5, 1, 1, 1, 1, 1, 1, 5],
    "key4": [1, 1, 1, 5, 4, 1, 5, 1],
    "w": [18, 45.5, 39, 17, 541, 8, 5, 92],
}
"""The table of Capobianchi, Polettini and Lucarelli (2001), data set francdat of sdcMicro."""


def test_individual_risks_of_sdcmicro():
    result = mc.risk(FRANCDAT, mc.Schema(quasi=["key1", "key2", "key3", "key4"], weight="w"))
    assert result.people_of_row.tolist() == [2, 2, 2, 1, 1, 1, 1, 2]
    published = [
        0.01714426, 0.02204233, 0.02204233, 0.17707583, 0.01165448, 0.29706308, 0.40235948,
        0.01714426,
    ]  # fmt: skip
    np.testing.assert_allclose(result.risks, published, atol=5e-9)
    expected = result.population.measures["expected_reidentifications"]
    assert expected.value == pytest.approx(sum(published), abs=1e-7)
    assert result.population.source == "weights"
    assert result.population.size == round(sum(FRANCDAT["w"]))


def test_the_risk_formula_is_the_hypergeometric_one():
    people = np.array([1, 2, 3, 7, 40, 5])
    population = np.array([5.0, 110, 50, 2000, 41, 5])
    p = people / population
    series = p**people / people * hyp2f1(people, people, people + 1, 1 - p)
    np.testing.assert_allclose(
        superpopulation.reidentification_risk(people, population), series, rtol=1e-9
    )


@pytest.mark.parametrize("fraction", [0.05, 0.3])
def test_population_uniques_of_a_known_population(fraction):
    """A population drawn from Pitman's model: the chosen estimate is near the truth."""
    rng = np.random.default_rng(3)
    sizes = np.ceil(rng.pareto(0.6, 20_000)).clip(1, 400).astype(np.int64)
    population = np.repeat(np.arange(len(sizes)), sizes)
    truth = int((sizes == 1).sum())
    sample = rng.choice(population, int(fraction * len(population)), replace=False)
    histogram = superpopulation.Histogram.of(np.unique(sample, return_counts=True)[1])
    models = superpopulation.estimate_uniques(histogram, len(population))
    assert models[0].model == ("pitman" if fraction <= 0.1 else models[0].model)
    assert models[0].people == pytest.approx(truth, rel=0.4)
    assert models[0].interval[0] <= models[0].people <= models[0].interval[1]


def test_a_complete_population_has_the_uniques_of_the_table():
    table = {"age": [*range(30), *range(40, 60), *range(40, 60)]}
    result = mc.risk(table, mc.Schema(quasi=["age"]), population=70)
    measures = result.population.measures
    assert measures["population_uniques"].value == pytest.approx(30, rel=0.05)
    assert measures["unique_in_population"].value == 30


# ------------------------------------------------------------------------- reports


def test_reports_contain_no_value(blank_figures):
    rng = np.random.default_rng(5)
    secrets = [f"zq{value}xv" for value in rng.integers(10**6, 10**7, 40)]
    table = {
        "place": secrets,
        "age": rng.integers(700_000, 799_999, 40),
        "illness": [f"jw{value}" for value in rng.integers(0, 4, 40)],
    }
    schema = mc.Schema(quasi=["place", "age"], confidential=["illness"])
    result = mc.risk(table, schema, population=1000)
    for format in ("text", "json", "html"):
        text = mc.report.render_risk(result, format, title="Risk")
        assert not any(secret in text for secret in secrets)
        assert not any(f"{value}" in text or f"{value:,}" in text for value in table["age"])
        assert "jw" not in text
    assert "zq" not in repr(result) + result._repr_html_()
    with pytest.raises(OptionError) as error:
        mc.report.render_risk(result, "docx", title="Risk")
    assert error.value.code == "option.unknown"


def test_json_lists_what_the_record_holds():
    result = mc.risk(mc.sample_survey(60), mc.sample_schema(), population=600)
    content = json.loads(mc.report.render_risk(result, "json", title="Risk", most=7))
    assert content["risk_version"] == 1
    assert len(content["records"]) == 7
    assert content["measures"]["unique_people"]["value"] == result["unique_people"]
    assert content["population"]["measures"]["population_uniques"]["interval"]
    assert [item["name"] for item in content["columns"]] == list(result.keys)


def test_adult_has_the_figures_of_pycanon(data_folder):
    """k_anonymity of pyCANON 1.3.6 is 1; classes and uniques are counted on its class sizes."""
    quasi = ["age", "education", "occupation", "relationship", "sex", "native_country"]
    result = mc.risk(data_folder / "adult.csv", mc.Schema(quasi=quasi, rest="drop"))
    assert (result["k"], result["classes"], result["unique_people"]) == (1, 19_781, 12_889)
    assert result["people_below_k"] == 24_913
