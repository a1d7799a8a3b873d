"""The report as plain text, at most 100 characters wide."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from microcell.measures.sections import arrange
from microcell.model import Measure
from microcell.report.contents import Contents, Verdict, homogeneous
from microcell.report.headlines import Headline, headlines
from microcell.report.wording import (
    Fact,
    amount,
    direction,
    facts,
    guarantee,
    imputed,
    making,
    roles,
    sampled,
)

__all__ = ["compose"]

_WIDTH = 100
_NAME_WIDTH = 32
_HEADINGS = ("Measure", "Value", "Unit", "Better", "Meaning")
_ROUNDED = "What rests on original values is rounded to two digits."


def compose(contents: Contents) -> str:
    """The audit as text: guarantee, verdict, facts, risk and utility, roles, measures, notes, and how it was made."""
    audit, title = contents.audit, contents.title
    blocks = [
        [*wrap(title, _WIDTH), "=" * min(len(title), _WIDTH)],
        wrap(guarantee(audit), _WIDTH),
        wrap(imputed(contents.manifest), _WIDTH),
        list(_paragraphs(facts(audit))),
        *_section("Verdict", _verdict(contents.verdict)),
        *(
            block
            for side, told in headlines(audit).items()
            for block in _section(f"{side} at a glance", _headlines(told))
        ),
        *_section("Columns and roles", _paragraphs(_roles(contents.manifest))),
        *_measures(contents),
        *_section("Classes that share one value", _paragraphs(homogeneous(audit))),
        *_section("Notes", _bullets(audit.notes)),
        *_section("How it was made", _paragraphs(making(contents.manifest))),
        [_ROUNDED] * contents.public,
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _section(heading: str, lines: Iterator[str]) -> Iterator[list[str]]:
    found = list(lines)
    if found:
        yield [heading, "-" * len(heading), *found]


def _verdict(verdict: Verdict) -> Iterator[str]:
    if not verdict.rows and not verdict.clean:
        return
    yield from wrap(verdict.sentence, _WIDTH)
    rows = [
        (
            item.sign,
            _short(item.measure.name),
            f"is {item.found}",
            f"required {item.required}",
            item.words,
        )
        for item in verdict.rows
    ]
    yield from _aligned(rows, "<<<<")
    yield from wrap(verdict.clean, _WIDTH)


def _headlines(told: Iterable[Headline]) -> Iterator[str]:
    yield from _aligned([(item.amount, item.label, item.line) for item in told], "><")


def _roles(manifest: Mapping[str, Any] | None) -> list[Fact]:
    return [Fact(group.label, ", ".join(group.columns)) for group in roles(manifest)]


def _bullets(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from wrap(text, _WIDTH, initial_indent="- ", subsequent_indent="  ")


def _paragraphs(items: Sequence[Fact]) -> Iterator[str]:
    width = min(max((len(item.label) for item in items), default=0), _NAME_WIDTH) + 2
    for item in items:
        yield from _hung(_short(item.label).ljust(width), item.text)


def _measures(contents: Contents) -> Iterator[list[str]]:
    """A block a group: one line a measure, its meaning wrapped in the last column."""
    for group in arrange(contents.audit):
        rows = [_row(measure) for measure in (*group.overall, *group.by_column)]
        yield from _section(group.heading, _aligned([_HEADINGS, *rows], "<><<"))


def _row(measure: Measure) -> tuple[str, ...]:
    interval = sampled(measure)
    meaning = f"{measure.meaning} ({interval})" if interval else measure.meaning
    return _short(measure.name), amount(measure), measure.unit, direction(measure), meaning


def _aligned(rows: Sequence[tuple[str, ...]], sides: str) -> Iterator[str]:
    """Rows in columns, each to the left or right as ``sides`` says, the last one wrapped."""
    widths = [max((len(row[place]) for row in rows), default=0) for place in range(len(sides))]
    for row in rows:
        cells = (
            f"{cell:{side}{width}}  " for cell, side, width in zip(row, sides, widths, strict=False)
        )
        yield from _hung("".join(cells), row[-1])


def _short(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 1]}…"


def _hung(start: str, text: str) -> Iterator[str]:
    for line in wrap(text, max(_WIDTH - len(start), 20)) or [""]:
        yield f"{start}{line}".rstrip()
        start = " " * len(start)
