import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microcell.errors import TableError
from microcell.tables import csv as _fields
from microcell.tables.csv import Marks, Shape, count_fields, measure

COMMA = Marks(ord(","))


def test_the_shape_counts_records_with_quoted_newlines_once() -> None:
    assert measure(b'a,b\n"1\n2",x\n3,"y ""z"""\n', COMMA) == Shape(
        records=3, fields=2, header_end=3
    )


def test_quotes_may_mean_nothing() -> None:
    assert measure(b'a,b\n5",x\n', Marks(ord(","), None)).fields == 2


@pytest.mark.parametrize(
    "text, said",
    [
        (b"a,b\n1,2\n3\n4,5\n", "Row 2 has 1 field, but the header has 2"),
        (b"a,b\n1,2\n3,4,5\n", "Row 2 has 3 fields, but the header has 2"),
        (b"a,b\n1,2\n\n4,5\n", "Row 2 is blank"),
        (b"a,b\r\n1,2\r\n\r\n4,5\r\n", "Row 2 is blank"),
        (b'a,b\n1,2\n3,"x\n4,5\n', "Row 2 opens a quote that is never closed: the file seems cut"),
        (b'a,"b\n1,2\n', "The header opens a quote"),
        (b'a,b\n1,2\n3,5" disk\n', "Row 2 has a quote in the middle"),
        (b'a,b\n1,2\n3,"x" y\n', "Row 2 has a quote in the middle"),
        (b'a,b\n1,"x\n2,"y"\n', "Row 1 has a quote in the middle"),
        (b"a,b\n1,x\ry\n", "Row 1 has a carriage return"),
        (b'a,b\n1\n2,x"y\n', "Row 1 has 1 field"),
    ],
)
@pytest.mark.parametrize("block", [1, 3, 1 << 23])
def test_wrong_records_are_named(
    text: bytes, said: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_fields, "_BLOCK", block)
    with pytest.raises(TableError, match=said):
        measure(text, COMMA)


def test_messages_hold_no_value() -> None:
    with pytest.raises(TableError) as caught:
        measure(b"name,age\nsecret,1,2\n", COMMA)
    assert "secret" not in str(caught.value)


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
def test_the_count_is_that_of_the_csv_module(rows: list[list[str]], block: int) -> None:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    data = text.getvalue().encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_fields, "_BLOCK", block)
        shape = measure(data, COMMA)
    assert (shape.records, shape.fields) == (len(rows), len(rows[0]))
    header = io.StringIO(data[: shape.header_end].decode().removesuffix("\r"), newline="")
    assert next(csv.reader(header)) == rows[0]


def test_complete_records_only_are_counted_in_a_sample() -> None:
    assert np.array_equal(count_fields(b"a,b\n1,2\n3", COMMA), [2, 2])
