"""The proof on a finished table and on the file read back: each fault alone is enough to fail."""

import numpy as np
import pytest

import microcell as mc
from microcell.errors import GuaranteeError, RequirementError, TableError
from microcell.model.manifest import BlocksSection
from microcell.release.prove import check_written, prove
from microcell.schema.resolve import resolve
from tests.raising import raises

TABLE = {"a": [1, 1, 1, 2, 2, 2], "b": [1, 1, 1, 2, 2, 2], "illness": list("xxyxyy")}
SCHEMA = mc.Schema(quasi=["a", "b"], confidential=["illness"])


def proved(columns=TABLE, schema=SCHEMA, **options):
    table = mc.read({name: np.array(values) for name, values in columns.items()})
    resolved = resolve(schema, mc.read({name: np.array(x) for name, x in TABLE.items()}))
    return prove(table, resolved, **{"k": 3, "n_rows": 6, **options}).tolist()


def blocks(k, *columns):
    return BlocksSection(k=k, columns=columns, cells=(2,) * len(columns), jointly_k_anonymous=False)


def test_a_sound_table_gives_its_class_sizes():
    assert proved() == [3, 3]
    assert proved(limits={"l_diversity": 2}) == [3, 3]
    assert proved(blocks=blocks(3, ("a",), ("b",))) == [3, 3]


@pytest.mark.parametrize("change", [{"c": [0] * 6}, {"illness": None}])
def test_columns_are_exactly_those_of_the_schema(change):
    columns = {name: values for name, values in (TABLE | change).items() if values}
    with raises(GuaranteeError, "guarantee.failed", columns=list(change)):
        proved(columns)


@pytest.mark.parametrize("n_rows", [5, 7])
def test_no_record_is_lost_or_added(n_rows):
    with raises(GuaranteeError, "guarantee.failed", records=6):
        proved(n_rows=n_rows)


def test_a_class_below_k_is_found():
    with raises(GuaranteeError, "guarantee.failed", k=4, smallest=3):
        proved(k=4)
    with raises(GuaranteeError, "guarantee.failed", k=3, smallest=1):
        proved(TABLE | {"b": [1, 1, 1, 2, 2, 3]})


def test_each_block_is_counted_by_itself():
    """k holds for all columns combined here, but not the larger k of a block."""
    coarse = TABLE | {"a": [1] * 6}
    assert proved(coarse, blocks=blocks(6, ("a",))) == [3, 3]
    with raises(GuaranteeError, "guarantee.failed", k=6, smallest=3):
        proved(coarse, blocks=blocks(6, ("a",), ("b",)))
    with raises(GuaranteeError, "guarantee.failed", k=6, smallest=3):
        proved(coarse, blocks=blocks(6, ("b",), ("a",)))


def test_a_missed_limit_is_found():
    with raises(RequirementError, "guarantee.requirement_not_met", measures=["l_diversity"]):
        proved(TABLE | {"illness": list("xxxxyy")}, limits={"l_diversity": 2})


def test_limits_on_the_whole_table_are_audited():
    columns = {"a": [1, 2, 3, 11, 12, 13], "illness": list("xxyxyy")}
    schema = mc.Schema(quasi=["a"], confidential=["illness"])
    loss = mc.anonymize(columns, schema, k=3, method="mdav").manifest.information_loss
    assert 0 < loss < 0.1
    mc.anonymize(columns, schema, k=3, method="mdav", require={"information_loss": 1.01 * loss})
    with raises(RequirementError, "guarantee.requirement_not_met", measures=["information_loss"]):
        mc.anonymize(columns, schema, k=3, method="mdav", require={"information_loss": 0.5 * loss})


def test_persons_are_counted_and_must_be_known():
    columns = {**TABLE, "patient": [f"P{i}" for i in range(6)]}
    schema = mc.Schema(quasi=["a", "b"], confidential=["illness"], person="patient")
    resolved = resolve(schema, mc.read({name: np.array(x) for name, x in columns.items()}))
    table = mc.read({name: np.array(values) for name, values in TABLE.items()})
    two_rows = np.array([0, 0, 1, 2, 3, 4])
    assert prove(table, resolved, k=2, n_rows=6, persons=two_rows).tolist() == [2, 3]
    with raises(GuaranteeError, "guarantee.failed", k=3, smallest=2) as caught:
        prove(table, resolved, k=3, n_rows=6, persons=two_rows)
    assert "2 persons" in str(caught.value)
    with raises(GuaranteeError, "guarantee.failed"):
        prove(table, resolved, k=2, n_rows=6)
    with raises(GuaranteeError, "guarantee.failed"):
        proved(persons=two_rows)


# ------------------------------------------------------------------------------- the file read back


def written(**columns):
    return mc.read({name: np.array(values) for name, values in columns.items()})


def test_an_equal_file_passes():
    check_written(written(a=[1, 2], b=[3, 4]), written(a=[1, 2], b=[3, 4]), ".csv")


@pytest.mark.parametrize(
    "columns",
    [
        {"a": [1, 2, 2], "b": [3, 4, 4]},
        {"a": [1], "b": [3]},
        {"a": [1, 2], "c": [3, 4]},
        {"b": [3, 4], "a": [1, 2]},
        {"a": [1, 2]},
    ],
)
def test_other_rows_or_columns_alone_are_enough_to_fail(columns):
    rows = len(columns["a"])
    with raises(TableError, "table.format_limit", suffix=".csv", rows=rows):
        check_written(written(a=[1, 2], b=[3, 4]), written(**columns), ".csv")


def test_a_changed_value_names_its_column():
    with raises(TableError, "table.format_limit", suffix=".csv", column="b"):
        check_written(written(a=[1, 2], b=[3, 4]), written(a=[1, 2], b=[3, 5]), ".csv")
