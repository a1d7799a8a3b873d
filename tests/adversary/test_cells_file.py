"""Attacks with the cells file: what it adds to the release it belongs to."""

import json

import numpy as np
import pytest
from benchmarks.adversary.outliers import guess_from_release, guess_from_scale

import microcell as mc

OUTLIER = 9_876_543


def people(seed=0, n=300):
    rng = np.random.default_rng(seed)
    incomes = rng.normal(50_000, 12_000, n).round().astype(np.int64)
    incomes[11] = OUTLIER
    return {
        "income": incomes,
        "age": rng.integers(20, 80, n),
        "sex": rng.choice(["f", "m"], n),
        "grade": rng.choice(["low", "middle", "high"], n, p=[0.2, 0.5, 0.3]),
        "zip": rng.choice(["08001", "08012", "08940", "17001"], n),
        "ill": rng.choice(list("abc"), n),
    }


def schema():
    return mc.Schema(
        quasi=[
            "income",
            "age",
            mc.Column("sex", kind="nominal"),
            mc.Column("grade", kind="ordinal", order=["low", "middle", "high"]),
            mc.Column("zip", kind="code"),
        ],
        confidential=["ill"],
    )


def release_with_cells(table, folder, kind="power", k=3):
    release = mc.anonymize(table, schema(), k=k, method="mdav", cells=kind)
    release.cells.save(folder / "cells.json")
    content = json.loads((folder / "cells.json").read_text(encoding="ascii"))
    columns = {column["name"]: column for column in content["encoding"]["columns"]}
    return release, content, columns


@pytest.mark.parametrize("seed", range(4))
def test_the_scale_does_not_tell_an_outlier(seed, tmp_path):
    table = people(seed)
    release, _, columns = release_with_cells(table, tmp_path)
    published = release.table["income"].astype(np.float64)
    baseline = abs(guess_from_release(published) - OUTLIER)
    exact = abs(guess_from_scale(published, table["income"].std()) - OUTLIER)
    scale = columns["income"]["scale"][0]
    assert exact < baseline  # the attack works with the exact deviation ...
    assert abs(guess_from_scale(published, scale) - OUTLIER) > 10 * baseline  # ... and fails here
    # The same rounded scale belongs to a whole interval of deviations.
    assert 0.75 < scale / table["income"].std() < 1.3
    assert float(f"{scale:.3g}") == scale


def test_no_exact_statistic_is_in_the_file(tmp_path):
    table = people()
    _, content, columns = release_with_cells(table, tmp_path)
    for name in ("income", "age"):
        column = columns[name]
        mean = column["origin"] + column["centre"][0]
        assert mean != table[name].mean()
        assert abs(mean - table[name].mean()) <= 0.11 * column["scale"][0]
    shares = [float(np.mean(table["sex"] == name)) for name in ("f", "m")]
    assert not set(columns["sex"]["centre"]) & set(shares)
    for name in ("grade", "zip"):
        spacing = np.diff(columns[name]["places"])
        assert all(len(repr(float(number))) <= 16 for number in columns[name]["scale"])
        assert (spacing > 0).all()
    assert content["encoding"] == mc.load_cells(tmp_path / "cells.json").encoding.as_dict()


@pytest.mark.parametrize("kind", ["power", "balls"])
@pytest.mark.parametrize("seed", range(3))
def test_centroids_do_not_give_exact_sums(kind, seed, tmp_path):
    """The release rounds means to whole numbers; exact centroids would give the sums."""
    table = people(seed)
    release, content, columns = release_with_cells(table, tmp_path, kind)
    labels, column = release.partition.labels, columns["age"]
    first = 1  # the dimension after the income
    sites = np.array(content["cells"]["centroids"])[:, first]
    means = sites * column["scale"][0] + column["centre"][0] + column["origin"]
    sizes = np.bincount(labels)
    sums = np.bincount(labels, weights=table["age"])
    published = np.bincount(labels, weights=release.table["age"]) / sizes
    from_release = np.mean(np.rint(published * sizes) == sums)
    from_file = np.mean(np.rint(means * sizes) == sums)
    assert from_file <= from_release + 0.05


@pytest.mark.parametrize("kind", ["power", "balls"])
def test_labels_and_cells_agree(kind, tmp_path):
    table = people(4)
    table["income"] = table["income"] + np.arange(len(table["income"]))
    release, _, _ = release_with_cells(table, tmp_path, kind)
    assigned = mc.assign(mc.load_cells(tmp_path / "cells.json"), table)
    assert (assigned.labels == release.partition.labels).all()
    assert assigned.table["income"].tolist() == release.table["income"].tolist()
    assert np.bincount(assigned.labels).min() >= 3


# ------------------------------------------------------------------------------------- rare values


def people_with_a_rare_town(seed=0, n=60):
    rng = np.random.default_rng(seed)
    towns = rng.choice(["alpha", "beta", "gamma"], n).astype(object)
    towns[:2] = "Rtown"
    return {"age": rng.integers(20, 80, n), "town": towns, "ill": rng.choice(list("abc"), n)}


@pytest.mark.parametrize("kind", ["power", "balls"])
def test_a_hierarchy_drafted_from_the_table_is_published_without_rare_values(kind, tmp_path):
    table = people_with_a_rare_town()
    rows = [("alpha", "A"), ("beta", "A"), ("Rtown", "A"), ("gamma", "C"), ("absent", "C")]
    schema = mc.Schema(quasi=["age", mc.Column("town", hierarchy=rows)], confidential=["ill"])
    release = mc.anonymize(table, schema, k=3, method="mdav", cells=kind)
    release.cells.save(tmp_path / "cells.json")
    text = (tmp_path / "cells.json").read_text(encoding="ascii")
    assert "Rtown" not in text
    assert "absent" not in text  # so that a missing value does not stand out
    assert "gamma" in text
    # The cells assign the others as before, and count the withheld value as unknown.
    known = {name: column[2:] for name, column in table.items()}
    again = mc.load_cells(tmp_path / "cells.json")
    placed = [mc.assign(cells, known).labels for cells in (release.cells, again)]
    assert (placed[0] == placed[1]).mean() > 0.9
    assert mc.assign(again, table).unknown == {"town": 2}


def test_a_bundled_hierarchy_is_public():
    table = {"age": np.arange(60), "from": ["Italy", "Spain", "Peru"] * 20}
    schema = mc.Schema(quasi=["age", mc.Column("from", hierarchy="countries")])
    cells = mc.anonymize(table, schema, k=3, method="mdav", cells=True).cells
    assert json.loads(cells.to_json())["encoding"]["columns"][1]["hierarchy"] == "countries"


def test_names_in_the_file_are_those_of_k_people_not_of_k_rows():
    table = people_with_a_rare_town()
    table["who"] = [f"p{row // 4}" for row in range(60)]
    table["zip"] = ["08001", "08002", "08003"] * 20
    table["grade"] = [1, 3, 2] * 20
    for row in range(4):  # all rows of one person
        table["town"][row], table["zip"][row], table["grade"][row] = "Rtown", "99999", 9
    hierarchy = [(name, "town") for name in ("alpha", "beta", "gamma", "Rtown")]
    town = [mc.Column("town", kind="nominal"), mc.Column("town", hierarchy=hierarchy)]
    for column in town:
        schema = mc.Schema(
            person=["who"],
            quasi=[column, mc.Column("zip", kind="code"), mc.Column("grade", kind="ordinal")],
            drop=["age", "ill"],
        )
        release = mc.anonymize(table, schema, k=3, method="mdav", cells=True)
        columns = json.loads(release.cells.to_json())["encoding"]["columns"]
        assert not any(name in json.dumps(columns) for name in ("Rtown", "99999"))
        assert all(name in json.dumps(columns) for name in ("gamma", "08002"))
        assert columns[2]["names"] == ["1", "2", "3"]
