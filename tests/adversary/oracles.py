"""Constructions that attackers can repeat, kept to show that the attacks on them work."""

import json

import numpy as np

from microcell import tables


def order_from_original(table, manifest):
    """Return a row order that depends on the original and on public settings alone.

    Releases were shuffled like this before they had an order key.
    """
    entries = {"k", "method", "seed", "missing", "columns", "dependence", "blocks"}
    settings = manifest.model_dump(mode="json", include=entries, exclude_none=True)
    settings["limits"] = dict(manifest.limits)
    digest = tables.digest(table, key=json.dumps(settings, sort_keys=True).encode())
    return np.random.default_rng(int(digest, 16)).permutation(table.rows)


def order_from_answers(table, design, n_rows):
    """Return the order in which survey collections used to be published."""
    digest = tables.digest(table, key=design.encode())
    return np.random.default_rng(int(digest, 16)).permutation(n_rows)
