"""The records: partitions that are kept, and the page that tells of them."""

import numpy as np
import pytest
from benchmarks import records

import microcell as mc


@pytest.mark.parametrize("k", records.SIZES)
@pytest.mark.parametrize("name", records.SETS)
def test_the_page_tells_what_the_kept_partitions_lose(data_folder, name, k):
    X, labels = records.load(name), records.kept_labels(name, k)
    sizes = np.bincount(labels)
    assert len(labels) == len(X)
    assert k <= sizes.min() <= sizes.max() <= 2 * k - 1
    line = next(
        row for row in records.PAGE.read_text(encoding="utf-8").splitlines() if row.startswith(f"| {name} | {k} |")
    )
    assert line.split("|")[5].strip() == f"{100 * mc.distortion(X, labels):.4f}"
