"""The CSV scanner: counts of records and fields, and errors with row numbers."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import TableError
from microcell.tables import csv as csv_module
from microcell.tables.csv import Marks, Shape, count_fields, measure
from tests.raising import raises

COMMA = Marks(ord(","))


def test_quoted_newlines_do_not_end_a_record() -> None:
    assert measure(b'a,b\n"1\n2",x\n3,"y ""z"""\n', COMMA) == Shape(
        records=3, fields=2, header_end=3
    )


def test_quotes_can_be_ignored() -> None:
    assert measure(b'a,b\n5",x\n', Marks(ord(","), None)).fields == 2


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (b"a,b\n1,2\n3\n4,5\n", 2),
        (b"a,b\n1,2\n3,4,5\n", 2),
        (b"a,b\n1,2\n\n4,5\n", 2),
        (b"a,b\r\n1,2\r\n\r\n4,5\r\n", 2),
        (b'a,b\n1,2\n3,"x\n4,5\n', 2),
        (b'a,"b\n1,2\n', 0),
        (b'a,b\n1,2\n3,5" disk\n', 2),
        (b'a,b\n1,2\n3,"x" y\n', 2),
        (b'a,b\n1,"x\n2,"y"\n', 1),
        (b"a,b\n1,x\ry\n", 1),
        (b'a,b\n1\n2,x"y\n', 1),
    ],
)
@pytest.mark.parametrize("block", [1, 3, 1 << 23])
def test_malformed_records_are_located(
    text: bytes, row: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_module, "_BLOCK", block)
    with raises(TableError, "table.malformed", row=row):
        measure(text, COMMA)


def test_messages_describe_the_row_without_its_values() -> None:
    with raises(TableError, "table.malformed", row=1) as caught:
        measure(b"name,age\nsecret,1,2\n", COMMA)
    assert str(caught.value) == (
        "Row 1 has 3 fields, but the header has 2. Correct the row (a field that contains the "
        "delimiter must be quoted), or set the delimiter."
    )


@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(
                st.text(st.sampled_from('a,"\n\r ;é'), max_size=5), min_size=width, max_size=width
            ),
            min_size=1,
            max_size=8,
        )
    ),
    st.sampled_from([1, 2, 5, 64]),
)
def test_counts_match_the_csv_module(rows: list[list[str]], block: int) -> None:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    data = text.getvalue().encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_module, "_BLOCK", block)
        shape = measure(data, COMMA)
    assert (shape.records, shape.fields) == (len(rows), len(rows[0]))
    header = io.StringIO(data[: shape.header_end].decode().removesuffix("\r"), newline="")
    assert next(csv.reader(header)) == rows[0]


def test_a_sample_counts_only_complete_records() -> None:
    assert np.array_equal(count_fields(b"a,b\n1,2\n3", COMMA), [2, 2])
