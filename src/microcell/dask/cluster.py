"""Engines that run tasks: a Dask cluster, or this process."""

import gc
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from secrets import token_hex
from threading import current_thread, main_thread
from types import FrameType, TracebackType
from typing import Any, Protocol

from microcell import __version__, progress
from microcell._display import count
from microcell._extras import missing_extra
from microcell.dask.arrow import arrow
from microcell.errors import MicrocellError, OptionError, TableError
from microcell.kernels._jit import one_thread

__all__ = ["DaskEngine", "Engine", "LocalEngine", "check_installed", "read_frame"]

RETRIES = 2
"""Number of times a task is repeated after its worker has failed, for example on a full disk."""

DEFAULT_WORKERS = 2
DEFAULT_MEMORY = "2GB"

MIN_MEMORY = 300_000_000
"""Memory that a worker needs for Python and its packages alone, in bytes."""

_CONNECT_TIMEOUT = 10
_WORKER_TIMEOUT = 120
"""Seconds within which a first worker must take a task; some clusters start workers on demand."""


def _not_installed() -> MicrocellError:
    return missing_extra("Data sets larger than memory", "dask", extra="dask")


class Engine(Protocol):
    """Executes the tasks of a job."""

    def run(self, stage: str, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Apply the function to each item and return the results in order."""
        ...


@dataclass(frozen=True)
class LocalEngine:
    """Runs tasks sequentially in this process, for tests and debugging."""

    def run(self, stage: str, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Apply the function to each item and return the results in order."""
        return _raise_errors([_Task(stage, function, item)() for item in items])


class DaskEngine:
    """Runs tasks on the workers of a Dask cluster.

    Uses the scheduler at an address, the program's own client, or a local cluster that ends with
    the block. A local cluster is started if workers or memory are given, or if the program has no
    client. Its workers store temporary files in ``folder``.
    """

    def __init__(
        self, scheduler: str | None, workers: int | None, memory: str | None, folder: Path
    ) -> None:
        self._scheduler = scheduler
        self._workers = workers
        self._memory = memory
        self._folder = folder
        self._cluster: Any = None
        self._client: Any = None
        self._borrowed = False

    def __enter__(self) -> "DaskEngine":
        distributed = _import_distributed()
        if self._scheduler is None and self._workers is None and self._memory is None:
            self._client = _current_client(distributed)
            self._borrowed = self._client is not None
        try:
            if not self._borrowed:
                self._connect(distributed)
            if self.dashboard:
                progress.report(f"dashboard at {self.dashboard}")
            self._check_workers()
        except BaseException:
            self.close()
            raise
        return self

    def _connect(self, distributed: Any) -> None:
        if self._scheduler is None:
            with _deferred_signals():
                self._cluster = self._start_workers(distributed)
        try:
            self._client = distributed.Client(
                self._cluster or self._scheduler, timeout=_CONNECT_TIMEOUT, set_as_default=False
            )
        except (OSError, TimeoutError, ValueError):
            raise OptionError(
                f"The scheduler at {self._scheduler!r} cannot be reached. Start one with "
                "'dask scheduler' and give its address, such as tcp://host:8786.",
                code="service.unavailable",
                option="scheduler",
            ) from None

    def _check_workers(self) -> None:
        """Check that there are workers with the same version and file system."""
        progress.report("waiting for workers")
        probe, token = self._folder / "probe", token_hex(8)
        probe.write_text(token, encoding="utf-8")
        try:
            # Submit a task first, because some clusters start workers on demand.
            first = self._client.submit(_probe, probe, pure=False).result(timeout=_WORKER_TIMEOUT)
            replies = list(self._client.run(_probe, probe, on_error="ignore").values()) or [first]
        except TimeoutError:
            raise OptionError(
                f"No worker responded within {_WORKER_TIMEOUT} seconds. Start workers with "
                "'dask worker tcp://host:8786', or wait until they are free.",
                code="service.unavailable",
                option="scheduler",
            ) from None
        except Exception as error:  # noqa: BLE001
            failed = type(error).__name__
        else:
            _check_replies(replies, token, self._folder)
            return
        finally:
            probe.unlink(missing_ok=True)
        raise OptionError(
            f"The workers cannot run microcell ({failed}). Install the same versions of Python "
            "and its packages on all workers and on this machine.",
            code="service.unavailable",
            option="scheduler",
            cause=failed,
        )

    def _start_workers(self, distributed: Any) -> Any:
        _check_memory(self._memory)
        progress.report("starting workers")
        try:
            # Close clients that failed to connect now. If the garbage collector closes them while
            # the cluster starts, they wait for a lock that this thread holds.
            gc.collect()
            return distributed.LocalCluster(
                n_workers=self._workers or DEFAULT_WORKERS,
                threads_per_worker=1,
                processes=True,
                memory_limit=self._memory or DEFAULT_MEMORY,
                local_directory=str(self._folder),  # Readable only by its owner.
                dashboard_address="127.0.0.1:0",
                silence_logs=50,  # The level CRITICAL.
            )
        except (RuntimeError, OSError) as error:
            raise OptionError(
                f"Workers cannot be started on this machine ({type(error).__name__}). Check its "
                "memory and its process limit.",
                code="service.unavailable",
                option="workers",
            ) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def dashboard(self) -> str:
        """URL of the Dask dashboard."""
        return str(self._client.dashboard_link or "")

    @property
    def client(self) -> Any:
        """The Dask client."""
        return self._client

    def write_frame(self, frame: Any, folder: Path) -> None:
        """Write a Dask dataframe to Parquet files without its index, which may name people."""
        progress.report("writing the dataframe to disk")
        try:
            self._client.compute(
                frame.to_parquet(folder, write_index=False, compute=False)
            ).result()
        except Exception as error:  # noqa: BLE001
            failed = type(error).__name__
        else:
            return
        raise TableError(
            f"The Dask dataframe cannot be computed and written to disk ({failed}). Compute it "
            "without microcell to find the cause, and check the free disk space.",
            code="table.unwritable",
            cause=failed,
        )

    def close(self) -> None:
        """Disconnect, and stop the cluster if it was started here."""
        for item in (None if self._borrowed else self._client, self._cluster):
            if item is not None:
                item.close()
        self._client = self._cluster = None

    def run(self, stage: str, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Apply the function to each item and return the results in order.

        Tasks of workers that die are repeated.
        """
        distributed = _import_distributed()
        progress.report(stage, 0, len(items))
        tasks = [_Task(stage, function, item) for item in items]
        # The dashboard shows the part of the key before the hyphen.
        keys = [f"{stage}-{token_hex(16)}" for _ in tasks]
        pairs = zip(tasks, keys, strict=True)
        futures = [
            self._client.submit(_run_task, task, key=key, retries=RETRIES) for task, key in pairs
        ]
        results: dict[str, Any] = {}
        try:
            for future, result in distributed.as_completed(
                futures, loop=self._client.loop, with_results=True
            ):
                results[future.key] = result
                if isinstance(result, MicrocellError):
                    raise result
                progress.report(stage, len(results), len(items))
            return [results[future.key] for future in futures]
        except MicrocellError:
            raise
        except Exception as error:  # noqa: BLE001
            raise TableError(
                f"A task failed repeatedly while {stage} ({_reason(error)}). The workers may have "
                "too little memory or disk space for a macrocell or for a text file, which is read "
                "as a whole. Nothing was released.",
                code="service.failed",
                stage=stage,
            ) from None
        finally:
            self._client.cancel(futures, force=True)


def _check_memory(memory: Any) -> None:
    """Raise OptionError if the memory limit is invalid or too small to start a worker."""
    if memory in (None, "auto"):
        return
    from dask.utils import parse_bytes  # noqa: PLC0415

    try:
        size = parse_bytes(memory)
    except (ValueError, TypeError, AttributeError):
        size = -1
    if size < MIN_MEMORY:
        raise OptionError(
            f"memory must be a size of at least 300 MB, such as '2GB', not {memory!r}.",
            code="option.out_of_range",
            option="memory",
        )


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Defer signals to the end of the block, and shield processes started in it from Ctrl-C.

    A terminal sends Ctrl-C to all its processes, but this program decides when to stop. A cluster
    that is half started cannot be stopped cleanly. A second signal is not deferred.
    """
    received: list[int] = []

    def defer(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            previous[number](number, frame)

    in_main_thread = current_thread() is main_thread()  # Only the main thread can set handlers.
    numbers = [
        getattr(signal, name)
        for name in ("SIGINT", "SIGTERM", "SIGHUP")
        if in_main_thread and hasattr(signal, name)
    ]
    previous: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}
    previous = {number: handler for number, handler in previous.items() if callable(handler)}
    for number in previous:
        signal.signal(number, defer)
    # Threads and processes inherit the signal mask. The resource tracker is started first, because
    # starting it later would reset the mask.
    resource_tracker.ensure_running()
    mask = (
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        if hasattr(signal, "pthread_sigmask")
        else None
    )
    try:
        yield
    finally:
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in previous.items():
            signal.signal(number, handler)
        for number in received[:1]:  # Takes precedence over an error it caused.
            previous[number](number, None)


def _current_client(distributed: Any) -> Any:
    """Return the Dask client that the program is already connected to, or None."""
    try:
        client = distributed.default_client()
    except ValueError:
        return None
    return None if client.asynchronous or client.status != "running" else client


def _probe(path: Path) -> tuple[str, str]:
    """Return the microcell version on a worker, and the content of a file ("" if unreadable)."""
    try:
        return __version__, path.read_text(encoding="utf-8")
    except OSError:
        return __version__, ""


def _check_replies(replies: Sequence[tuple[str, str]], token: str, folder: Path) -> None:
    versions = sorted({version for version, _ in replies} - {__version__})
    if versions:
        raise OptionError(
            f"The workers run microcell {', '.join(versions)}, but this program runs "
            f"{__version__}. Install the same version everywhere.",
            code="option.conflict",
            option="scheduler",
        )
    blind = sum(content != token for _, content in replies)
    if blind:
        raise OptionError(
            f"{blind} of {count(len(replies), 'worker')} cannot read {folder.parent}. Use output "
            "and scratch directories that all machines share under the same path.",
            code="table.unreadable",
            path=str(folder.parent),
            workers=blind,
        )


def read_frame(folder: Path, suffix: str) -> Any:
    """Return the release in a directory as a lazy Dask dataframe."""
    try:
        import dask.dataframe as frames  # noqa: PLC0415
    except ImportError:
        raise _not_installed() from None
    paths = [str(path) for path in sorted(folder.glob(f"part-*{suffix}"))]
    if suffix == ".parquet":
        return frames.read_parquet(paths)
    return frames.read_csv(paths, sep="\t" if suffix == ".tsv" else ",")


class _TaskFailedError(RuntimeError):
    """A task failed, possibly because of its worker; the message contains no value."""


class _Task:
    """A function and its argument. Its repr shows only the stage, because engines log failures."""

    def __init__(self, stage: str, function: Callable[[Any], Any], item: Any) -> None:
        self._stage = stage
        self._function = function
        self._item = item

    def __repr__(self) -> str:
        return f"<{self._stage}>"

    def __call__(self) -> Any:
        """Run the task; return microcell's own errors, since retrying the task would not help."""
        try:
            with one_thread(), progress.listen(_ignore_progress):
                return self._function(self._item)
        except MicrocellError as error:
            return error
        except Exception as error:  # noqa: BLE001
            failed = type(error).__name__
        # The message of a foreign exception may contain values and would be logged: drop it.
        raise _TaskFailedError(f"{failed} while {self._stage}")


def _run_task(task: _Task) -> Any:
    return task()


def _raise_errors(results: Sequence[Any]) -> list[Any]:
    for result in results:
        if isinstance(result, MicrocellError):
            raise result
    return list(results)


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, _TaskFailedError) else type(error).__name__


def _ignore_progress(task: str, done: int, total: int) -> None:
    """Ignore the progress of a task; the engine reports the progress of the stage."""


def check_installed() -> None:
    """Raise OptionError if Dask or pyarrow is not installed."""
    arrow()
    _import_distributed()


def _import_distributed() -> Any:
    try:
        import distributed  # noqa: PLC0415
    except ImportError:
        raise _not_installed() from None
    return distributed
