"""Data sets larger than memory: anonymize and audit files on a Dask cluster.

Names are imported on first use; the engine requires the extra ``dask``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from microcell.errors import OptionError

if TYPE_CHECKING:
    from microcell.dask.audit import audit_dataset
    from microcell.dask.release import DatasetRelease, anonymize_dataset

__all__ = ["DatasetRelease", "anonymize_dataset", "audit_dataset", "check_engine", "is_dask"]

_MODULE_OF = {
    "DatasetRelease": "microcell.dask.release",
    "anonymize_dataset": "microcell.dask.release",
    "audit_dataset": "microcell.dask.audit",
}

ENGINES = ("dask",)


def is_dask(source: Any) -> bool:
    """Return True for a Dask dataframe, without importing Dask."""
    return type(source).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(
        source, "to_parquet"
    )


def check_engine(engine: Any) -> None:
    """Raise OptionError if the engine is unknown; None selects the default."""
    if engine is not None and engine not in ENGINES:
        names = ", ".join(map(repr, ENGINES))
        raise OptionError(
            f"Unknown engine {engine!r}. Choose one of: {names}.",
            code="option.unknown",
            option="engine",
        )


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'microcell.dask' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
