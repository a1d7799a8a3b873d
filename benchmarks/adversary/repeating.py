"""Two collections of a survey, or two ends of a session, that differ in one person."""

import shutil
from pathlib import Path

import numpy as np

import microcell as mc
from benchmarks.adversary.recovery import Attack, Trials
from benchmarks.adversary.settings import Columns, make_people, schema_of
from microcell.model import Integers

__all__ = ["COLLECTIONS", "SESSIONS", "attack_collections", "attack_sessions"]

_TABLE = "heavy-tailed"

COLLECTIONS = Attack(
    "two collections, one more answer",
    "who answered between the collections, and their cell",
    "all releases that the product writes",
    "that person's confidential value",
    "1 / answers in the cell",
)

SESSIONS = Attack(
    "two ends of a session, one more record",
    "who was added after the release, and their class",
    "all releases that the product writes",
    "that person's confidential value",
    "1 / class size",
)


def attack_collections(
    k: int, n: int, seed: int, victims: int, folder: Path, *, copied: bool = False
) -> Trials:
    """Collect answers, then again with one more, in every way that the commands allow.

    With ``copied``, the second collection uses a copy of the cells file in another folder without
    its ledger, which the documentation warns of.
    """
    people = make_people(_TABLE, n, seed)
    design = mc.surveys.design(people, schema_of(_TABLE), k, 0.8, 0.2, method="mdav")
    labels = design.labels
    rng = np.random.default_rng([seed, 21])
    answered = np.flatnonzero(rng.random(n) < 0.8)
    # In smaller cells, all answers are new in the second release.
    exposed = answered[np.bincount(labels[answered])[labels[answered]] > k]
    hits, chances = [], []
    for number, victim in enumerate(rng.permutation(exposed)[:victims].tolist()):
        (folder / f"{number}").mkdir()  # All use one design, and each folder has one release of it.
        cells = folder / f"{number}" / "cells.json"
        design.publish(cells)
        before = answered[answered != victim]
        seen = [_collect(cells, _answers(people, labels, before))]
        if copied:
            elsewhere = folder / f"{number}-copy"
            elsewhere.mkdir()
            cells = Path(shutil.copy(cells, elsewhere))
        everybody = _answers(people, labels, answered)
        seen += [_collect(cells, everybody, late=late) for late in (False, True)]
        members = answered[labels[answered] == labels[victim]]
        # Whoever has any release of the cell guesses among its values; a difference beats that.
        hits.append(_guess(rng, seen, people["secret"][members]) == people["secret"][victim])
        chances.append(1 / len(members))
    return Trials(tuple(map(bool, hits)), tuple(chances))


def attack_sessions(
    k: int, n: int, seed: int, victims: int, folder: Path, *, copied: bool = False
) -> Trials:
    """Finish a session, then add one more record and finish it again.

    With ``copied``, the second end is that of a copy of the folder made before the first, which the
    documentation warns of.
    """
    people = make_people(_TABLE, n, seed)
    rng = np.random.default_rng([seed, 22])
    hits, chances = [], []
    for number, victim in enumerate(rng.permutation(n)[:victims].tolist()):
        state = folder / f"state-{number}"
        rest = {name: np.delete(column, victim) for name, column in people.items()}
        session = mc.increments.StoredSession.create(
            state, rest, schema_of(_TABLE), k, method="mdav"
        )
        again = state
        if copied:
            again = Path(shutil.copytree(state, folder / f"copy-{number}"))
        first = session.finish()
        seen: list[set[int] | None] = [set(first.table["secret"].to_list())]
        one = {name: column[victim : victim + 1] for name, column in people.items()}
        seen.append(_extend(again, one))
        whole = mc.anonymize(people, schema_of(_TABLE), k=k, method="mdav")
        members = np.flatnonzero(whole.partition.labels == whole.partition.labels[victim])
        hits.append(_guess(rng, seen, people["secret"][members]) == people["secret"][victim])
        chances.append(1 / len(members))
    return Trials(tuple(map(bool, hits)), tuple(chances))


def _answers(people: Columns, labels: Integers, rows: Integers) -> Columns:
    return {"cell": labels[rows], "token": rows, "secret": people["secret"][rows]}


def _collect(cells: Path, answers: object, *, late: bool = False) -> set[int] | None:
    """Return the values of a release, or None if it is refused."""
    output = cells.with_name(f"{cells.stem}-{late}.csv")
    try:
        collection = mc.surveys.collect(cells, answers, id="token", late=late)
        collection.publish(output)
    except (mc.GuaranteeError, mc.errors.OptionError):
        return None
    return set(np.asarray(collection.table["secret"]).tolist())


def _extend(state: Path, batch: object) -> set[int] | None:
    try:
        session = mc.increments.StoredSession(state)
        session.add(batch)
        return set(session.finish().table["secret"].to_list())
    except mc.GuaranteeError:
        return None


def _guess(rng: np.random.Generator, seen: list[set[int] | None], values: Integers) -> int:
    """Guess the value of the person who came later, from the releases there are."""
    first, *later = seen
    for release in later:
        if release is not None and len(release - (first or set())) == 1:
            return int(next(iter(release - (first or set()))))
    # Without a difference: any value of the class; the attacker is given all of them.
    return int(rng.choice(values))
