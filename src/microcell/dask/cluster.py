"""The engine itself: tasks on the workers of a Dask cluster, the user's own or one that is started here."""

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
from microcell.dask.arrow import arrow
from microcell.errors import MicrocellError, OptionError, TableError
from microcell.kernels._jit import one_thread

__all__ = ["DaskEngine", "Engine", "Here", "check_installed", "is_dask", "read_frame"]

RETRIES = 2
"""How often a task is begun again that failed for a reason of its worker, such as a full disk."""

WORKERS, MEMORY = 2, "2GB"
"""What is started on this machine if nothing else is said."""

LEAST_MEMORY = 300_000_000
"""Bytes that a worker takes for Python and its packages alone."""

_SECONDS_TO_CONNECT = 10
_SECONDS_TO_BEGIN = 120
"""How long it may take until a first worker takes a task; some clusters start workers when there is work."""


_NOT_INSTALLED = (
    "Data sets beyond memory need Dask, which is not installed: pip install 'microcell[dask]'."
)


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
    """The workers of a scheduler at an address, of the program's own client, or of a cluster that ends with the block.

    A cluster is started where workers or memory are given, or where the program has no client. What its workers keep
    on disk goes to ``folder``.
    """

    def __init__(
        self, scheduler: str | None, workers: int | None, memory: str | None, folder: Path
    ) -> None:
        self._scheduler, self._workers, self._memory, self._folder = (
            scheduler,
            workers,
            memory,
            folder,
        )
        self._cluster: Any = None
        self._client: Any = None
        self._borrowed = False

    def __enter__(self) -> "DaskEngine":
        distributed = _import_distributed()
        if self._scheduler is None and self._workers is None and self._memory is None:
            self._client = _client_of_program(distributed)
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
            with _undisturbed():
                self._cluster = self._start_workers(distributed)
        try:
            self._client = distributed.Client(
                self._cluster or self._scheduler, timeout=_SECONDS_TO_CONNECT, set_as_default=False
            )
        except (OSError, TimeoutError, ValueError):
            raise OptionError(
                f"The scheduler at {self._scheduler!r} cannot be reached. Start one ('dask scheduler') and give its "
                "address, such as tcp://host:8786, or leave it out."
            ) from None

    def _check_workers(self) -> None:
        """Refuse workers that cannot do the work, before any of it: none, another version, or another file system."""
        progress.report("waiting for workers")
        sign, token = self._folder / "sign", token_hex(8)
        sign.write_text(token, encoding="utf-8")
        try:
            # A task, since some clusters start no worker before there is one.
            first = self._client.submit(_look, sign, pure=False).result(timeout=_SECONDS_TO_BEGIN)
            found = list(self._client.run(_look, sign, on_error="ignore").values()) or [first]
        except TimeoutError:
            raise OptionError(
                f"No worker began within {_SECONDS_TO_BEGIN} seconds. Start workers ('dask worker tcp://host:8786'), "
                "or wait for those that are busy."
            ) from None
        except Exception as error:  # noqa: BLE001
            failed = type(error).__name__
        else:
            _compare(found, token, self._folder)
            return
        finally:
            sign.unlink(missing_ok=True)
        raise OptionError(
            f"The workers cannot run microcell ({failed}). They need the same Python and the same packages as this "
            "program."
        )

    def _start_workers(self, distributed: Any) -> Any:
        _check_memory(self._memory)
        progress.report("starting workers")
        try:
            return distributed.LocalCluster(
                n_workers=self._workers or WORKERS,
                threads_per_worker=1,
                processes=True,
                memory_limit=self._memory or MEMORY,
                local_directory=str(self._folder),  # readable by its owner alone
                dashboard_address="127.0.0.1:0",
                silence_logs=50,  # CRITICAL: what workers log is for who looks after a cluster
            )
        except (RuntimeError, OSError) as error:
            raise OptionError(
                f"Workers cannot be started on this machine ({type(error).__name__}). Check its memory and the number "
                "of processes that it allows."
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
            self._client.compute(
                frame.to_parquet(folder, write_index=False, compute=False)
            ).result()
        except Exception as error:  # noqa: BLE001
            failed = type(error).__name__
        else:
            return
        raise TableError(f"The Dask dataframe cannot be computed and written to disk ({failed}).")

    def close(self) -> None:
        """Leave the scheduler, and end what was started here."""
        for item in (None if self._borrowed else self._client, self._cluster):
            if item is not None:
                item.close()
        self._client = self._cluster = None

    def run(self, stage: str, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """What the function makes of each item, in their order; one that a worker's end cut off is begun again."""
        distributed = _import_distributed()
        progress.report(stage, 0, len(items))
        tasks = [_Task(stage, function, item) for item in items]
        # The dashboard shows what stands before the hyphen.
        keys = [f"{stage}-{token_hex(16)}" for _ in tasks]
        pairs = zip(tasks, keys, strict=True)
        futures = [
            self._client.submit(_carry_out, task, key=key, retries=RETRIES) for task, key in pairs
        ]
        found: dict[str, Any] = {}
        try:
            for future, outcome in distributed.as_completed(
                futures, loop=self._client.loop, with_results=True
            ):
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
                "little memory or disk space for a macrocell, or for a file of plain text, which is read whole. "
                "Nothing was released."
            ) from None
        finally:
            self._client.cancel(futures, force=True)


def _check_memory(memory: Any) -> None:
    """Refuse what is no size, and so little that a worker would be ended before it began, again and again."""
    if memory in (None, "auto"):
        return
    from dask.utils import parse_bytes  # noqa: PLC0415

    try:
        size = parse_bytes(memory)
    except (ValueError, TypeError, AttributeError):
        size = -1
    if size < LEAST_MEMORY:
        raise OptionError(
            f"memory must be a size such as '2GB', of 300 MB or more, not {memory!r}."
        )


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let processes that are started here hear nothing of Ctrl-C, and this program only at the end of the block.

    A terminal sends it to all processes, and ending is for this program to decide. A cluster that is half there cannot
    be ended in order; whoever cannot wait for it interrupts a second time.
    """
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        if len(heard) > 1:
            before[number](number, frame)

    here = current_thread() is main_thread()  # others cannot say what a signal does
    ending = [
        getattr(signal, name)
        for name in ("SIGINT", "SIGTERM", "SIGHUP")
        if here and hasattr(signal, name)
    ]
    before: dict[int, Any] = {number: signal.getsignal(number) for number in ending}
    before = {number: handler for number, handler in before.items() if callable(handler)}
    for number in before:
        signal.signal(number, hear)
    # Threads and processes have the mask of the thread that starts them. The first process would start the tracker,
    # which takes the mask off again.
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
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in heard[:1]:  # rather than what failed because of it
            before[number](number, None)


def _client_of_program(distributed: Any) -> Any:
    """The client that the program has connected already, as Dask itself would use it; None if there is none."""
    try:
        client = distributed.default_client()
    except ValueError:
        return None
    return None if client.asynchronous or client.status != "running" else client


def _look(sign: Path) -> tuple[str, str]:
    """The version on a worker, and what it reads in a file of the program; nothing if it cannot."""
    try:
        return __version__, sign.read_text(encoding="utf-8")
    except OSError:
        return __version__, ""


def _compare(found: Sequence[tuple[str, str]], token: str, folder: Path) -> None:
    versions = sorted({version for version, _ in found} - {__version__})
    if versions:
        raise OptionError(
            f"Workers have microcell {', '.join(versions)}, and this program {__version__}. Install the same version."
        )
    blind = sum(read != token for _, read in found)
    if blind:
        raise OptionError(
            f"{blind} of {len(found)} workers cannot read {folder.parent}. Give an output (and a scratch folder) on a "
            "file system that all machines share under the same path, as the same user."
        )


def read_frame(folder: Path, suffix: str) -> Any:
    """The release in a folder as a lazy Dask dataframe."""
    try:
        import dask.dataframe as frames  # noqa: PLC0415
    except ImportError:
        raise OptionError(_NOT_INSTALLED) from None
    paths = [str(path) for path in sorted(folder.glob(f"part-*{suffix}"))]
    if suffix == ".parquet":
        return frames.read_parquet(paths)
    return frames.read_csv(paths, sep="\t" if suffix == ".tsv" else ",")


def is_dask(source: Any) -> bool:
    """True for a Dask dataframe."""
    return type(source).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(
        source, "to_parquet"
    )


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


def check_installed() -> None:
    """Refuse to begin without the packages that the engine is made of."""
    arrow()
    _import_distributed()


def _import_distributed() -> Any:
    try:
        import distributed  # noqa: PLC0415
    except ImportError:
        raise OptionError(_NOT_INSTALLED) from None
    return distributed
