"""The engine itself: tasks on the workers of a Dask cluster, the user's own or one that is started here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from microcell import progress
from microcell.errors import MicrocellError, OptionError, TableError
from microcell.kernels._jit import one_thread

__all__ = ["DaskEngine", "Engine", "Here", "is_dask"]

RETRIES = 2
"""How often a task is begun again that failed for a reason of its worker, such as a full disk."""

_SECONDS_TO_CONNECT = 10


class Engine(Protocol):
    """What carries out tasks."""

    def run(self, stage: str, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """What the function makes of each item, in their order."""
        ...


@dataclass(frozen=True)
class Here:
    """Tasks one after the other in this process: for tests, and to find out what a task does."""

    def run(self, stage: str, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """What the function makes of each item, in their order."""
        return _take([_Task(stage, function, item)() for item in items])


class DaskEngine:
    """The workers of a scheduler at an address, or of a cluster on this machine, which ends with the block."""

    def __init__(self, scheduler: str | None, workers: int, memory: str) -> None:
        self._scheduler, self._workers, self._memory = scheduler, workers, memory
        self._cluster: Any = None
        self._client: Any = None

    def __enter__(self) -> "DaskEngine":
        distributed = _import_distributed()
        if self._scheduler is None:
            self._cluster = self._start_workers(distributed)
        try:
            self._client = distributed.Client(
                self._cluster or self._scheduler, timeout=_SECONDS_TO_CONNECT, set_as_default=False
            )
        except (OSError, TimeoutError, ValueError):
            self.close()
            raise OptionError(
                f"The scheduler at {self._scheduler!r} cannot be reached. Start one ('dask scheduler') and give its "
                "address, such as tcp://host:8786, or leave it out."
            ) from None
        if self.dashboard:
            progress.report(f"dashboard at {self.dashboard}")
        return self

    def _start_workers(self, distributed: Any) -> Any:
        progress.report("starting workers")
        try:
            return distributed.LocalCluster(
                n_workers=self._workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=self._memory,
                dashboard_address="127.0.0.1:0",
                silence_logs=50,  # CRITICAL: what workers log is for who looks after a cluster
            )
        except (ValueError, TypeError):
            raise OptionError(f"memory must be a size such as '2GB', not {self._memory!r}.") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def dashboard(self) -> str:
        """The address of the page that shows what the workers do."""
        return str(self._client.dashboard_link or "")

    @property
    def client(self) -> Any:
        """The client, for what Dask does by itself."""
        return self._client

    def write_frame(self, frame: Any, folder: Path) -> None:
        """Write a Dask dataframe to Parquet files, a partition each; its index stays out, for it may name people."""
        progress.report("writing the frame to disk")
        try:
            self._client.compute(frame.to_parquet(folder, write_index=False, compute=False)).result()
        except Exception as error:  # noqa: BLE001
            failed = type(error).__name__
        else:
            return
        raise TableError(f"The Dask dataframe cannot be computed and written to disk ({failed}).")

    def close(self) -> None:
        """Leave the scheduler, and end what was started here."""
        for item in (self._client, self._cluster):
            if item is not None:
                item.close()
        self._client = self._cluster = None

    def run(self, stage: str, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """What the function makes of each item, in their order; one that a worker's end cut off is begun again."""
        distributed = _import_distributed()
        progress.report(stage, 0, len(items))
        tasks = [_Task(stage, function, item) for item in items]
        futures = [self._client.submit(_carry_out, task, pure=False, retries=RETRIES) for task in tasks]
        found: dict[str, Any] = {}
        try:
            for future, outcome in distributed.as_completed(futures, loop=self._client.loop, with_results=True):
                found[future.key] = outcome
                if isinstance(outcome, MicrocellError):
                    raise outcome
                progress.report(stage, len(found), len(items))
            return [found[future.key] for future in futures]
        except MicrocellError:
            raise
        except Exception as error:  # noqa: BLE001
            raise TableError(
                f"A task failed while {stage}, and again when it was repeated ({_reason(error)}). Workers may have too "
                "little memory or disk space for a macrocell. Nothing was released."
            ) from None
        finally:
            self._client.cancel(futures, force=True)


def is_dask(source: Any) -> bool:
    """True for a Dask dataframe."""
    return type(source).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(source, "to_parquet")


class _TaskFailedError(RuntimeError):
    """A task failed for a reason that may be its worker's; says of which sort, and no value."""


class _Task:
    """A function and what it is done to; shown by the name of its stage alone, for engines log what failed."""

    def __init__(self, stage: str, function: Callable[[Any], Any], item: Any) -> None:
        self._stage, self._function, self._item = stage, function, item

    def __repr__(self) -> str:
        return f"<{self._stage}>"

    def __call__(self) -> Any:
        """What comes of it; a refusal is given back, not raised: to repeat the task would not change it."""
        try:
            with one_thread(), progress.listen(_say_nothing):
                return self._function(self._item)
        except MicrocellError as error:
            return error
        except Exception as error:  # noqa: BLE001
            failed = type(error).__name__
        # The message of another's error may hold values, and it would be logged: nothing of it goes on.
        raise _TaskFailedError(f"{failed} while {self._stage}")


def _carry_out(task: _Task) -> Any:
    return task()


def _take(outcomes: Sequence[Any]) -> list[Any]:
    for outcome in outcomes:
        if isinstance(outcome, MicrocellError):
            raise outcome
    return list(outcomes)


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, _TaskFailedError) else type(error).__name__


def _say_nothing(task: str, done: int, total: int) -> None:
    """Hear a report and forget it: it would be of one task among many."""


def _import_distributed() -> Any:
    try:
        import distributed  # noqa: PLC0415
    except ImportError:
        raise OptionError(
            "Data sets beyond memory need Dask, which is not installed: pip install 'microcell[dask]'."
        ) from None
    return distributed
