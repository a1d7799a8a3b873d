"""The commands as Markdown, from the application that runs them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import typer.main
from _pages import escape_bars, table

from microcell.cli import app

TOP = """# Commands

Made from the commands themselves by `docs/make_reference.py`. Every command also takes `--help`, which shows the same.
[Exit codes and output](../reference.md#commands) are the same for all.

"""

_NAMES = {int: "N", float: "NUMBER", str: "TEXT"}


@dataclass(frozen=True)
class Command:
    """A command of the application: its full name, and what typer knows of it."""

    name: str
    about: Any

    @property
    def arguments(self) -> list[Any]:
        """The parameters without a flag."""
        return [item for item in self.about.params if not is_option(item)]

    @property
    def options(self) -> list[Any]:
        """The parameters with a flag."""
        return [item for item in self.about.params if is_option(item)]

    @property
    def usage(self) -> str:
        """The command with its arguments and the options that it needs."""
        words = [item.metavar or item.name.upper() for item in self.arguments]
        needed = [f"{item.opts[-1]} {value_of(item)}" for item in self.options if item.required]
        return " ".join([self.name, *words, *needed])


def all_commands() -> Iterator[Command]:
    """Every command, those of groups among them, in the order that help shows."""
    yield from _below(typer.main.get_command(app), "microcell")


def _below(node: Any, name: str) -> Iterator[Command]:
    if not hasattr(node, "commands"):
        yield Command(name, node)
        return
    for word, child in node.commands.items():
        yield from _below(child, f"{name} {word}")


def is_option(parameter: Any) -> bool:
    """True for what has a flag."""
    return any(name.startswith("-") for name in parameter.opts)


def commands_table() -> str:
    """A line for each command."""
    rows = [
        [
            f"[`{command.usage}`](reference/commands.md#{command.name.replace(' ', '-')})",
            _summary(command),
        ]
        for command in all_commands()
    ]
    return table(["command", "what it does"], rows)


def commands_page() -> str:
    """Every command with its arguments, options and examples."""
    return TOP + "\n".join(_section(command) for command in all_commands())


def _section(command: Command) -> str:
    parts = [
        f"## {command.name}",
        "",
        _escape(command.about.help or ""),
        "",
        f"```text\n{command.usage} [OPTIONS]\n```",
        "",
    ]
    if command.about.params:
        rows = [_row(item) for item in command.about.params]
        parts += [table(["argument or option", "value", "default", "meaning"], rows), ""]
    examples = [
        line.strip() for line in (command.about.epilog or "").splitlines()[1:] if line.strip()
    ]
    if examples:
        parts += ["```text", *examples, "```", ""]
    return "\n".join(parts)


def _row(item: Any) -> list[str]:
    if not is_option(item):
        return [
            f"`{item.metavar or item.name.upper()}`",
            "",
            "needed" if item.required else "",
            _escape(item.help or ""),
        ]
    flags = ", ".join(f"`{flag}`" for flag in (*item.opts, *item.secondary_opts))
    return [flags, value_of(item), _default_of(item), _escape(item.help or "")]


def value_of(item: Any) -> str:
    """What an option takes: its placeholder, or the words that it knows; nothing for a switch."""
    annotation = getattr(getattr(item, "type_descriptor", None), "annotation", None)
    if annotation is bool:
        return ""
    if item.metavar:
        return str(item.metavar)
    if get_origin(annotation) is Literal:
        return "|".join(map(str, get_args(annotation)))
    return _NAMES.get(annotation, "FILE")


def _default_of(item: Any) -> str:
    if item.required:
        return "needed"
    if (
        item.default is None
        or item.default is False
        or item.default == ""
        or item.show_default is False
    ):
        return ""
    return f"`{item.default}`"


def _summary(command: Command) -> str:
    return escape_bars(_escape((command.about.help or "").partition("\n\n")[0])).rstrip(".")


def _escape(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")
