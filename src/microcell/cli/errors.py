"""Errors on the command line: one line on stderr, an exit code, and JSON for programs.

No traceback and no text of an unexpected exception is shown, because it may contain values of the
table; ``MICROCELL_DEBUG=1`` shows both. Usage errors of the argument parser are reworded, so that
they read like all other errors and carry a code too.
"""

import json as jsons
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from typing import Any, Literal, ParamSpec, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from microcell.cli.console import discard_streams, has_printed_data, print_data, print_error
from microcell.errors import GuaranteeError, MicrocellError, OptionError

__all__ = ["GUARANTEE_FAILED", "Command", "CommandGroup", "RootGroup", "handle_errors"]

GUARANTEE_FAILED = 1
_WRONG_USE = 2
_BUG = 70
_INTERRUPTED = 130
_BROKEN_PIPE = 141

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Base class of all errors of the argument parser; typer does not export it."""

_P = ParamSpec("_P")


def handle_errors(command: Callable[_P, None]) -> Callable[_P, None]:
    """Turn every exception of a command into an error line and an exit code.

    If the command was called with ``json=True``, the error is printed on stdout as well, as
    ``{"error": {"code": ..., "message": ..., "details": ...}}``.
    """

    @wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        has_printed_data.set(False)
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, SystemExit):
            raise
        except BrokenPipeError:
            discard_streams()
            raise typer.Exit(_BROKEN_PIPE) from None
        # BaseException: polars panics are not Exceptions, and their text must not be shown either.
        except BaseException as error:  # noqa: BLE001
            raise typer.Exit(_report(error, json=bool(kwargs.get("json")))) from None

    return run


def _report(error: BaseException, *, json: bool) -> int:
    """Print the error and return the exit code."""
    if os.environ.get("MICROCELL_DEBUG") == "1":
        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt):
        print_error("Interrupted: nothing was written.")
        return _INTERRUPTED
    if isinstance(error, MicrocellError):
        _print(error.code, str(error), error.details, json=json)
        return GUARANTEE_FAILED if isinstance(error, GuaranteeError) else _WRONG_USE
    if isinstance(error, OSError):
        _print("system.io_error", _system_message(error), {}, json=json)
        return _WRONG_USE
    if isinstance(error, MemoryError):
        message = "Not enough memory for this table. No output was changed."
        _print("system.out_of_memory", message, {}, json=json)
        return _WRONG_USE
    message = (
        f"This is a bug in microcell ({type(error).__name__}); please report it. Set "
        "MICROCELL_DEBUG=1 to see where it happened, and check that output for values of your "
        "table before you share it."
    )
    _print("internal.bug", message, {"exception": type(error).__name__}, json=json)
    return _BUG


def _print(code: str, message: str, details: dict[str, Any], *, json: bool) -> None:
    print_error(f"error[{code}]: {message}")
    if json and not has_printed_data.get():  # stdout holds one JSON document, not two.
        content = {"error": {"code": code, "message": message, "details": details}}
        print_data(jsons.dumps(content, indent=2, default=str))


def _system_message(error: OSError) -> str:
    """Return the system's message, without text of a library that may quote the table."""
    reason = error.strerror or type(error).__name__
    path = f": {error.filename}" if error.filename else ""
    return f"{reason}{path}. No output was changed."


class _UsageError(typer.BadParameter):
    """A usage error detected by the command classes below rather than by the parser."""

    def __init__(self, reason: OptionError, context: Any) -> None:
        super().__init__(str(reason), ctx=context)
        self.reason = reason


class Command(TyperCommand):
    """A command whose usage errors carry the context needed to reword them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments and reject unexpected ones."""
        lenient = ctx.allow_extra_args or ctx.resilient_parsing
        ctx.allow_extra_args = True
        with _with_context(ctx):
            rest = super().parse_args(ctx, args)
        if rest and not lenient:
            extra = " ".join(rest)
            text = f"Unexpected argument: {extra}."
            raise _UsageError(OptionError(text, code="option.unknown", option=extra), ctx)
        return rest


class CommandGroup(TyperGroup):
    """A command group whose usage errors carry the context needed to reword them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options before the command."""
        with _with_context(ctx):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = get_close_matches(name, self.list_commands(ctx))
            hint = f" Did you mean {_either(near)}?" if near else ""
            text = f"Unknown command {name!r}.{hint}"
            raise _UsageError(OptionError(text, code="option.unknown", command=name), ctx)
        return super().resolve_command(ctx, args)


@contextmanager
def _with_context(context: Any) -> Iterator[None]:
    """Attach the context to errors that the parser raises without one."""
    try:
        yield
    except UsageError as error:
        if getattr(error, "ctx", None) is None:
            error.ctx = context  # type: ignore[attr-defined]
        raise


class RootGroup(CommandGroup):
    """The top-level command, with reworded usage errors."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line and exit the process with its exit code."""
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except UsageError as error:
            arguments = sys.argv[1:] if args is None else args
            code = _report_usage(error, json="--json" in arguments)
        except typer.Abort:
            print_error("Aborted.")
            code = 1
        if standalone_mode:
            sys.exit(code or 0)
        return code


def _report_usage(error: Any, *, json: bool) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        return _WRONG_USE  # The help has been printed.
    reworded = _reword(error)
    _print(reworded.code, str(reworded), reworded.details, json=json)
    context = getattr(error, "ctx", None)
    if context is not None:
        sys.stderr.write(f"Run '{context.command_path} --help' for help.\n")
    return _WRONG_USE


def _reword(error: Any) -> OptionError:
    """Convert an error of the argument parser to an :class:`OptionError`.

    Errors are distinguished by class and attributes, never by text. typer does not export the
    classes, so they are matched by name.
    """
    if isinstance(error, _UsageError):
        return error.reason
    kind = type(error).__name__
    param = getattr(error, "param", None)
    name = getattr(error, "option_name", None) or _parameter_name(param)
    if kind == "MissingParameter":
        return OptionError(f"{name} is required.", code="option.missing", option=name)
    if kind == "BadParameter" and param is not None:
        return _reword_value(error, param, name)
    if kind == "NoSuchOption":
        near = [str(option) for option in error.possibilities or ()]
        hint = f" Did you mean {_either(near)}?" if near else ""
        return OptionError(f"Unknown option {name}.{hint}", code="option.unknown", option=name)
    if kind == "BadOptionUsage":
        flag = _is_flag(error.ctx, name)
        text = f"{name} {'does not take' if flag else 'needs'} a value."
        code = "option.invalid" if flag else "option.missing"
        return OptionError(text, code=code, option=name)
    return OptionError(f"{str(error.message).rstrip('.')}.", code="option.invalid")


def _is_flag(context: Any, name: str) -> bool:
    params = context.command.get_params(context)
    return any(
        getattr(param, "is_flag", False)
        for param in params
        if name in (*param.opts, *param.secondary_opts)
    )


def _reword_value(error: Any, param: Any, name: str) -> OptionError:
    annotation = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    literals = [annotation, *get_args(annotation)]
    choices = [item for kind in literals if get_origin(kind) is Literal for item in get_args(kind)]
    if choices:
        text = f"{name} must be {_either([str(choice) for choice in choices])}."
        return OptionError(text, code="option.unknown", option=name)
    number = "a whole number" if int in literals else "a number" if float in literals else None
    if number is None:
        text = f"{name}: {str(error.message).rstrip('.')}."
        return OptionError(text, code="option.invalid", option=name)
    code = "option.out_of_range" if _is_out_of_range(error.__cause__) else "option.wrong_type"
    return OptionError(f"{name} must be {number}{_range(param)}.", code=code, option=name)


def _is_out_of_range(cause: Any) -> bool:
    """Return whether a validation error of pydantic is about a limit, not about a type."""
    return any(item["type"].startswith(("greater", "less")) for item in cause.errors())


def _range(param: Any) -> str:
    minimum = param.min if param.name != "k" else 2
    if minimum is not None and param.max is not None:
        return f" from {minimum} to {param.max}"
    if minimum is not None:
        return f" of at least {minimum}"
    return "" if param.max is None else f" of at most {param.max}"


def _parameter_name(param: Any) -> str:
    if param is None:
        return ""
    if getattr(param, "param_type_name", "option") == "argument":
        return str(param.metavar or param.name).strip("[]{}").upper()
    return str(max(param.opts, key=len))


def _either(choices: list[str]) -> str:
    """Return the choices as a phrase: "a, b or c"."""
    *first, last = choices
    return f"{', '.join(first)} or {last}" if first else last
