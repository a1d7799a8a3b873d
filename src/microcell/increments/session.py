"""Sessions: tables that arrive in parts, partitioned as they arrive and released once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from microcell._display import count, html_card, short_repr
from microcell.errors import GuaranteeError
from microcell.increments.release import build_release, check_same_key
from microcell.increments.state import DEFAULT_METHOD, Batch, State, add_part, start_state
from microcell.model import Schema, Table
from microcell.release.partition import Request
from microcell.release.publish import Release, check_outputs

__all__ = ["Session", "finished_error", "start"]


class Session:
    """A table that arrives in parts, in memory; :func:`start` creates one.

    All records so far are in cells of at least k people, except records of strata with fewer than
    k, which wait. k counts distinct persons if the schema names a person column, otherwise records.
    A batch that raises an error leaves the session unchanged.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._release: Release | None = None

    def __repr__(self) -> str:
        return short_repr(
            self,
            count(self.records, "record"),
            count(self.cells, "cell"),
            k=self.k,
            batches=len(self.batches),
            finished=self.finished,
        )

    def _repr_html_(self) -> str:
        return html_card(
            f"Every cell has at least {count(self.k, 'record')}",
            {
                "Records": f"{self.records:,}",
                "Cells": f"{self.cells:,}",
                "Waiting": count(self.waiting, "record"),
                "Batches": f"{len(self.batches):,}",
                "Finished": "yes" if self.finished else "no",
            },
            next_steps={
                "session.add(table)": "add a batch of records",
                "session.finish()": "produce the release",
            },
        )

    @property
    def state(self) -> State:
        """Records, points and cells so far. Contains original values."""
        return self._state

    @property
    def k(self) -> int:
        """Smallest number of people in a cell."""
        return self._state.request.k

    @property
    def records(self) -> int:
        """Number of records so far."""
        return self._state.original.rows

    @property
    def table(self) -> Table:
        """All records so far, unchanged, for an audit of the release."""
        return self._state.original

    @property
    def cells(self) -> int:
        """Number of cells so far."""
        return self._state.cells

    @property
    def waiting(self) -> int:
        """Number of records without a cell, because their stratum has fewer than k people."""
        return self._state.waiting

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The base and the batches added so far."""
        return self._state.batches

    @property
    def finished(self) -> bool:
        """True once the release has been produced."""
        return self._release is not None

    def add(
        self,
        batch: Any,
        *,
        strategy: str = "refined",
        inertial: bool = False,
        repeated: str = "refuse",
        again: bool = False,
    ) -> Batch:
        """Add a batch of records to the cells.

        Parameters
        ----------
        batch
            A table with the columns of the base, as the same type of data frame, or a file if the
            base was a file. Categories that the base does not have are placed as close as possible
            and counted; outside a declared order they are an error.
        strategy, inertial
            "refined", "separate" (with the session's method), "nearest", "split-late" or
            "split-early"; see :func:`microcell.methods.increments.add_batch`.
        repeated
            What to do with rows of people who are already in the session (without an id or a person
            column: rows with exactly the same values): "refuse" them with an error that names the
            rows, "skip" them, or "keep" them. With a person column, k counts every person once, so
            further rows can safely be kept; with an id they cannot.
        again
            Add a batch even if all its rows are those of an earlier one. This is usually a mistake,
            so it is an error otherwise.

        Raises
        ------
        GuaranteeError
            The session is finished.
        SchemaError, DataError
            The batch is empty, has other columns or types than the base, or has missing values
            although they are an error; or people are already in the session.
        """
        if self.finished:
            raise finished_error()
        added = add_part(
            self._state,
            batch,
            strategy=strategy,
            inertial=inertial,
            repeated=repeated,
            again=again,
        )
        self._state = added.state
        return added.batch

    def finish(self, *, order_key: str | Path | None = None) -> Release:
        """Release all records; repeating the call returns the same release.

        Parameters
        ----------
        order_key
            Key of the order of published rows; see :func:`microcell.anonymize`.

        Raises
        ------
        OptionError
            The session was finished with another key.
        TooFewRecordsError
            A stratum has fewer than k people. The session remains open.
        RequirementError
            A limit cannot be met. The session remains open.
        """
        if self._release is None:
            self._release = build_release(self._state, order_key=order_key)
        check_same_key(order_key, self._release.manifest.order_key)
        return self._release

    def publish(
        self,
        path: str | Path,
        *,
        report: str | Path | None = None,
        certificate: str | Path | None = None,
        audience: str = "internal",
        keep_order: bool = False,
        order_key: str | Path | None = None,
        overwrite: bool = True,
    ) -> Release:
        """Finish the session and write its release; see :meth:`microcell.Release.publish`.

        The outputs are checked before the session is finished.
        """
        sources = () if self._state.source is None else (self._state.source,)
        check_outputs(
            path, report=report, certificate=certificate, sources=sources, overwrite=overwrite
        )
        return self.finish(order_key=order_key).publish(
            path,
            report=report,
            certificate=certificate,
            audience=audience,
            keep_order=keep_order,
            overwrite=overwrite,
        )


def start(
    base: Any,
    schema: Schema | str | Path,
    k: int,
    *,
    id: str | None = None,
    method: str = DEFAULT_METHOD,
    seed: int = 0,
    missing: str = "error",
    require: Mapping[str, float] | None = None,
    **options: Any,
) -> Session:
    """Start a session with the records that have arrived so far, at least k.

    Means, standard deviations and categories of the base place all further records until the
    release, and columns that are constant in the base have no influence on distances. So the base
    should be similar to the whole.

    Parameters
    ----------
    base, schema, k, method, seed, missing, options
        As for :func:`anonymize`. Strata with fewer than k people wait for more.
    require
        Limits that the release must meet, as for :func:`anonymize`. The cells keep them as far as
        the records so far allow; :meth:`Session.finish` meets them or raises an error.
    id
        Column that identifies people, each of whom has a single row. It recognizes people who are
        already in the session, and is not published. If people have several rows, use the role
        person of the schema instead. Without either, only rows with exactly the same values are
        recognized.

    Raises
    ------
    TooFewRecordsError
        The base has fewer than k people.

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
    request = Request(k, method, seed, options)
    return Session(start_state(base, schema, request, missing, require, id))


def finished_error() -> GuaranteeError:
    """Return the error for changes to a finished session."""
    return GuaranteeError(
        "This session is finished and its table released. Nothing can be added: comparing a "
        "second version with the first would reveal single records. Start a new session for "
        "another table.",
        code="guarantee.session_finished",
    )
