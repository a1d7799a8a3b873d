"""The order of published rows must not confirm a guess of confidential values.

The attacker knows every other column in its original order, the settings, and from the release
which confidential values each cell has. What is open is who has which of them. If the order of the
rows can be computed from the original, the attacker tries all assignments until the order fits.
"""

import json
from collections import Counter
from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.adversary.row_order import AGES, SCHEMA, confirmed
from pyarrow import feather
from typer.testing import CliRunner

import microcell as mc
from microcell import tables
from microcell.cli import app
from microcell.release import manifest_path, order
from tests.adversary.oracles import order_from_answers, order_from_original


def make_people(seed):
    incomes = np.random.default_rng(seed).permutation(np.arange(10, 70, 10))
    return {"age": AGES, "income": incomes}


def read_columns(path):
    table = tables.read(path)
    return {name: table.columns[name].data for name in table.names}


def test_an_order_computed_from_the_original_confirms_guesses():
    for seed in range(6):
        people = make_people(seed)
        release = mc.anonymize(people, SCHEMA, k=3, method="mdav")

        def order_of(table, manifest=release.manifest):
            return order_from_original(table, manifest)

        rows = order_of(tables.read(people))
        published = {name: np.asarray(column)[rows] for name, column in release.table.items()}
        assert confirmed(published, order_of) == [people["income"].tolist()]


def test_the_order_of_a_release_confirms_nothing(tmp_path):
    right = 0
    for seed in range(40):
        people = make_people(seed)
        release = mc.anonymize(people, SCHEMA, k=3, method="mdav")
        release.publish(tmp_path / "out.parquet")
        published = read_columns(tmp_path / "out.parquet")
        public = release.manifest.updated(order_key=None)
        attempts = [
            confirmed(
                published, lambda table, manifest=public: order_from_original(table, manifest)
            ),
            confirmed(
                published,
                lambda table, manifest=public: order.row_order(
                    table, manifest.updated(order_key="0" * 32)
                ),
            ),
        ]
        right += any(fits == [people["income"].tolist()] for fits in attempts)
    # A fit by accident confirms one of 36 assignments: about 40 * 2 * 36 / 6! / 36 = 0.1 expected.
    assert right <= 2


def test_orders_are_uniform_whatever_the_values_are():
    """The same table gives every order equally often, so that the order says nothing about it."""
    manifest = mc.anonymize(make_people(0), SCHEMA, k=3, method="mdav").manifest
    people = tables.read({"age": [31, 33, 35], "income": [10, 20, 30]})
    keys = [order.read_order_key(None) for _ in range(600)]
    assert len(set(keys)) == 600
    orders = [order.row_order(people, manifest.updated(order_key=key)) for key in keys]
    counts = Counter(tuple(rows.tolist()) for rows in orders)
    assert len(counts) == 6
    chi_squared = sum((number - 100) ** 2 / 100 for number in counts.values())
    assert chi_squared < 40  # 5 degrees of freedom: exceeded with a probability of 1e-7


@pytest.mark.parametrize("suffix", [".arrow", ".parquet"])
@pytest.mark.parametrize(
    "ordered",
    [
        lambda notes: pl.DataFrame({"note": pl.Series(notes, dtype=pl.Enum(notes))}),
        lambda notes: pd.DataFrame({"note": pd.Categorical(notes, notes, ordered=True)}),
        lambda notes: pa.table(
            {"note": pa.DictionaryArray.from_arrays(range(6), notes, ordered=True)}
        ),
    ],
)
def test_the_order_of_categories_does_not_tell_that_of_the_original(tmp_path, ordered, suffix):
    """Categories are often in the order in which they appear, so that they number the rows."""
    notes, read = list("fbdaec"), {".arrow": feather.read_table, ".parquet": pq.read_table}
    table = tables.add_columns(tables.read(ordered(notes)), {"age": np.array(AGES)}).native
    schema = mc.Schema(quasi=["age"], confidential=["note"])
    release = mc.anonymize(table, schema, k=3, method="mdav")
    release.publish(tmp_path / f"out{suffix}")
    column = read[suffix](tmp_path / f"out{suffix}")["note"]
    assert not pa.types.is_dictionary(column.type)
    assert column.to_pylist() == [notes[row] for row in release.row_order]


def test_cells_list_categories_in_alphabetical_order():
    towns = pl.Series(list("zmak") * 6, dtype=pl.Enum(list("zmak")))
    table = pl.DataFrame({"age": range(24), "town": towns})
    schema = mc.Schema(quasi=["age", mc.Column("town", kind="nominal")])
    cells = mc.anonymize(table, schema, k=3, method="mdav", cells=True).cells
    columns = json.loads(cells.to_json())["encoding"]["columns"]
    assert columns[1]["names"] == list("akmz")


@pytest.fixture(scope="module")
def design():
    people = {"age": np.arange(600) % 71 + 18}
    return mc.surveys.design(people, mc.Schema(quasi=["age"]), 5, 0.5, 1e-3, method="mdav")


def test_the_order_of_a_survey_confirms_nothing(design):
    cell = int(np.bincount(design.labels).argmax())
    answers = {"cell": np.full(5, cell), "income": np.array([30, 10, 50, 20, 40])}

    def fitting(published):
        orders = []
        for incomes in permutations(published.tolist()):
            candidate = {**answers, "income": np.array(incomes)}
            rows = order_from_answers(tables.read(candidate), design.cells.digest, 5)
            if np.array_equal(candidate["income"][rows], published):
                orders.append(list(incomes))
        return orders

    rows = order_from_answers(tables.read(answers), design.cells.digest, 5)
    assert answers["income"].tolist() in fitting(answers["income"][rows])
    collections = [mc.surveys.collect(design.cells, answers) for _ in range(20)]
    orders = {tuple(np.asarray(item.table["income"]).tolist()) for item in collections}
    assert len(orders) > 10  # of 120: the answers no longer determine the order
    assert len({item.manifest.order_key for item in collections}) == 20


def test_only_the_manifest_contains_the_key(tmp_path):
    """Neither what is published nor what is shown contains it."""
    people, schema = mc.sample_survey(60), mc.sample_schema()
    release = mc.anonymize(people, schema, k=3, method="mdav", cells=True)
    for audience in ("public", "internal"):
        release.publish(
            tmp_path / f"{audience}.csv",
            report=tmp_path / f"{audience}.html",
            certificate=tmp_path / f"{audience}.pdf",
            cells=tmp_path / f"{audience}.json",
            audience=audience,
        )
    key = release.manifest.order_key
    holders = [path.name for path in tmp_path.iterdir() if key.encode() in path.read_bytes()]
    assert sorted(holders) == ["internal.csv.manifest.json", "public.csv.manifest.json"]
    entries = release.manifest.as_dict()
    shown = [
        mc.render(release.audit(), form, manifest=entries, audience=audience)
        for form in ("text", "json", "html")
        for audience in ("public", "internal")
    ]
    shown += [repr(release), repr(release.manifest), release.manifest._repr_html_()]
    assert not any(key in text for text in shown)


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_command_line_does_not_show_the_key(tmp_path, form):
    people = tmp_path / "people.csv"
    mc.write(make_people(0), people)
    (tmp_path / "schema.toml").write_text(
        'schema_version = 1\n[columns.age]\nrole = "quasi"\n'
        '[columns.income]\nrole = "confidential"\n'
    )
    output = tmp_path / "out.csv"
    command = ["anonymize", str(people), "-s", str(tmp_path / "schema.toml"), "-k", "3"]
    done = CliRunner().invoke(app, [*command, "-o", str(output), *form])
    assert done.exit_code == 0
    manifest = manifest_path(output)
    assert mc.Manifest.load(manifest).order_key not in done.output
    again = tmp_path / "again.csv"
    done = CliRunner().invoke(app, [*command, "-o", str(again), "--order-key", str(manifest)])
    assert done.exit_code == 0
    assert again.read_bytes() == output.read_bytes()
    done = CliRunner().invoke(
        app, [*command, "-o", str(again), "--order-key", str(manifest), "--keep-order"]
    )
    assert "option.conflict" in done.output
