"""A session in memory: begun with the base, given batches, finished once."""

from pathlib import Path
from typing import Any

from microcell.errors import GuaranteeError
from microcell.groundwork import Request
from microcell.model import Release, Schema, Table
from microcell.sessions.releasing import Making, make_release
from microcell.sessions.states import Batch, State, begin, extend

__all__ = ["FINISHED", "Session", "start"]

FINISHED = (
    "This session is finished, and its table released. A second version of one table could be laid beside the first, "
    "and what changed would tell of single records; so nothing can be added. Begin a session anew for another table."
)


class Session:
    """A table that comes in parts: cells of those that are there, and one release when all are.

    :func:`start` makes one. Between the calls the cells of all records so far have k or more; only records of strata
    that have not yet k wait without a cell. A batch that is refused leaves the session as it was.
    """

    def __init__(self, state: State, making: Making | None = None) -> None:
        self._state = state
        self._making = making
        self._release: Release | None = None

    @property
    def state(self) -> State:
        """The records so far, their points and their cells; original values are in it."""
        return self._state

    @property
    def k(self) -> int:
        """The least number of records in a cell."""
        return self._state.request.k

    @property
    def records(self) -> int:
        """How many records there are so far."""
        return self._state.original.rows

    @property
    def table(self) -> Table:
        """All records so far as they were read, for an audit of the release."""
        return self._state.original

    @property
    def cells(self) -> int:
        """How many cells there are so far."""
        return self._state.cells

    @property
    def waiting(self) -> int:
        """How many records have no cell yet, as their stratum has fewer than k."""
        return self._state.waiting

    @property
    def batches(self) -> tuple[Batch, ...]:
        """What was added, the base first."""
        return self._state.batches

    @property
    def finished(self) -> bool:
        """True once the release was made."""
        return self._release is not None or self._making is not None

    def add(self, batch: Any, *, strategy: str = "refined", inertial: bool = False) -> Batch:
        """What adding a batch came to; its records join the cells by ``strategy``.

        Parameters
        ----------
        batch
            A table with the columns of the base, in the kind of frame that the base came in, or a file where that was
            one. Categories that the base has not are placed as near as can be told, and counted; outside of a declared
            order they are refused.
        strategy, inertial
            "refined", "separate" (by the session's method), "nearest", "split-late" or "split-early"; see
            :func:`microcell.partitioning.increments.add_batch`.

        Raises
        ------
        GuaranteeError
            The session is finished.
        SchemaError, DataError
            Other columns or types than the base, no records, missing values that are to be an error.
        """
        if self.finished:
            raise GuaranteeError(FINISHED)
        self._state, _ = extend(self._state, batch, strategy=strategy, inertial=inertial)
        return self._state.batches[-1]

    def finish(self) -> Release:
        """The release of all records, as :func:`anonymize` gives one; the same whenever it is asked for.

        :class:`TooFewRecordsError`, and a session that can still be added to, if a stratum has fewer than k records.
        """
        if self._release is None:
            self._release = make_release(self._state, self._making)
        return self._release


def start(
    base: Any,
    schema: Schema | str | Path,
    k: int,
    *,
    method: str = "auto",
    seed: int = 0,
    missing: str = "error",
    **options: Any,
) -> Session:
    """A session with the records that are there already, k or more; further ones are added as they arrive.

    The means and deviations of the base, and its categories, place all further records until the release. A column
    that has one value in the base has no part in distances. So begin with a base that is like the whole.

    Parameters
    ----------
    base, schema, k, method, seed, missing, options
        As :func:`anonymize` takes them. Strata of the base with fewer than k records wait for further ones.

    Raises
    ------
    TooFewRecordsError
        The base has fewer than k records.

    Examples
    --------
    >>> from microcell import Schema
    >>> schema = Schema(quasi=["age"], confidential=["income"])
    >>> session = start({"age": [31, 33, 60, 62], "income": [10, 20, 40, 50]}, schema, 2)
    >>> session.add({"age": [32, 64], "income": [30, 60]}, strategy="nearest").records
    2
    >>> session.finish().table["age"]
    array([32, 32, 62, 62, 32, 62])
    """
    return Session(begin(base, schema, Request(k, method, seed, options), missing))
