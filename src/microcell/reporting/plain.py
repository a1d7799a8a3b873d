"""The report as plain text, at most 100 characters wide."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from microcell.model import Audit
from microcell.reporting.accounts import making, roles
from microcell.reporting.sentences import Fact, amount, direction, facts, guarantee

__all__ = ["compose"]

_WIDTH = 100
_NAME_WIDTH = 32


def compose(audit: Audit, manifest: Mapping[str, Any] | None, title: str) -> str:
    """The audit as text: the guarantee, the facts, the roles, the measures, the notes and how the release was made."""
    blocks = [
        [*wrap(title, _WIDTH), "=" * min(len(title), _WIDTH)],
        wrap(guarantee(audit), _WIDTH),
        list(_paragraphs(facts(audit))),
        *_section("Columns and roles", _paragraphs(_roles(manifest))),
        list(_measures(audit)),
        *_section("Notes", _notes(audit)),
        *_section("How it was made", _paragraphs(making(manifest))),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _section(heading: str, lines: Iterator[str]) -> Iterator[list[str]]:
    found = list(lines)
    if found:
        yield [heading, "-" * len(heading), *found]


def _roles(manifest: Mapping[str, Any] | None) -> list[Fact]:
    return [Fact(group.label, ", ".join(group.columns)) for group in roles(manifest)]


def _notes(audit: Audit) -> Iterator[str]:
    for note in audit.notes:
        yield from wrap(note, _WIDTH, initial_indent="- ", subsequent_indent="  ")


def _paragraphs(items: Sequence[Fact]) -> Iterator[str]:
    width = max((len(item.label) for item in items), default=0) + 2
    for item in items:
        yield from _hung(item.label.ljust(width), item.text)


def _measures(audit: Audit) -> Iterator[str]:
    """One line a measure, its meaning wrapped in the last column."""
    rows = [(_short(name), amount(m), m.unit, direction(m), m.meaning) for name, m in audit.measures.items()]
    if not rows:
        return
    rows.insert(0, ("Measure", "Value", "Unit", "Better", "Meaning"))
    name, value, unit, better = (max(len(row[place]) for row in rows) for place in range(4))
    for row in rows:
        start = f"{row[0]:<{name}}  {row[1]:>{value}}  {row[2]:<{unit}}  {row[3]:<{better}}  "
        yield from _hung(start, row[4])


def _short(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 1]}…"


def _hung(start: str, text: str) -> Iterator[str]:
    for line in wrap(text, _WIDTH - len(start)) or [""]:
        yield f"{start}{line}".rstrip()
        start = " " * len(start)
