"""Optional dependencies: import a package, or name the extra to install."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from microcell.errors import MicrocellError, OptionError

__all__ = ["is_installed", "missing_extra", "require_module"]


def is_installed(module: str) -> bool:
    """Return whether the module can be imported, without importing it."""
    return find_spec(module) is not None


def require_module(
    module: str, *, extra: str, purpose: str, error: type[MicrocellError] = OptionError
) -> ModuleType:
    """Import a module of an optional extra; raise ``error`` if it is not installed.

    ``purpose`` is what the package is needed for, as the subject of the message.
    """
    try:
        return import_module(module)
    except ImportError:
        raise missing_extra(purpose, module, extra=extra, error=error) from None


def missing_extra(
    purpose: str,
    package: str,
    *,
    extra: str,
    error: type[MicrocellError] = OptionError,
    **details: Any,
) -> MicrocellError:
    """Return the error that names the extra to install.

    Examples
    --------
    >>> print(missing_extra("Figures", "matplotlib", extra="report"))
    Figures need matplotlib, which is not installed. Run: pip install "microcell[report]"
    """
    return error(
        f'{purpose} need {package}, which is not installed. Run: pip install "microcell[{extra}]"',
        code="option.extra_missing",
        package=package,
        extra=extra,
        **details,
    )
