"""The report as plain text, at most 100 characters wide."""

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from microcell.model import Finding
from microcell.model.audit import GroupMean
from microcell.report.contents import (
    Contents,
    Headline,
    Verdict,
    arrange,
    headlines,
    homogeneous_classes,
)
from microcell.report.provenance import RoleGroup, column_roles, imputation_note, provenance
from microcell.report.wording import (
    Fact,
    MeasureRow,
    coefficient_rows,
    false_categories,
    group_rows,
    guarantee,
    key_facts,
    left_out_rows,
    mask_rows,
    measure_rows,
)

__all__ = ["compose"]

_WIDTH = 100
_NAME_WIDTH = 32
_SEVERITY_WIDTH = 9
_HEADINGS = ("Measure", "Value", "Unit", "Better", "Meaning")
_COEFFICIENTS = ("Term", "Original (95 % interval)", "Published", "Overlap")
_ROUNDED = "Results that depend on original values are rounded to two significant digits."


def compose(contents: Contents) -> str:
    """Return the report as text."""
    audit, manifest, title = contents.audit, contents.manifest, contents.title
    blocks = [
        [*wrap(title, _WIDTH), "=" * min(len(title), _WIDTH)],
        wrap(audit.warning, _WIDTH),
        wrap(guarantee(audit), _WIDTH),
        _section("Findings", _findings(audit.findings)),
        wrap(imputation_note(manifest, audit), _WIDTH),
        list(_facts(key_facts(audit))),
        _section("Verdict", _verdict(contents.verdict)),
        _section("Notes", _bullets(audit.notes)),
        *(
            _section(f"{side} at a glance", _headlines(items))
            for side, items in headlines(audit).items()
        ),
        *(
            _section(
                item.title,
                _aligned([_COEFFICIENTS, *coefficient_rows(item)], "<<<"),
            )
            for item in audit.analyses
        ),
        _section("Groups before and after", _groups(audit.groups)),
        _section("Small groups before and after", _groups(audit.small_groups)),
        _section("People published with a false category", _facts(false_categories(audit))),
        _section("Records left out", _left_out(contents)),
        _section("Masked columns, compared with the original", _masks(contents)),
        _section("Columns and roles", _roles(column_roles(manifest))),
        *_measures(contents),
        _section(
            "Homogeneous classes (a single confidential value)", _facts(homogeneous_classes(audit))
        ),
        _section("How the release was created", _facts(provenance(manifest))),
        [_ROUNDED] if contents.public else [],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _section(heading: str, lines: Iterable[str]) -> list[str]:
    """Return the lines under their heading; empty if there are none."""
    body = list(lines)
    return [heading, "-" * len(heading), *body] if body else []


def _findings(findings: Iterable[Finding]) -> Iterator[str]:
    for item in findings:
        yield from _hanging(item.severity.upper().ljust(_SEVERITY_WIDTH), item.sentence)
        indent = " " * _SEVERITY_WIDTH
        if item.advice:
            yield from _hanging(f"{indent}Do: ", f"{item.advice}.")


def _groups(groups: Sequence[GroupMean]) -> Iterator[str]:
    if groups:
        yield from _aligned(group_rows(groups), "<<>>>")


def _left_out(contents: Contents) -> Iterator[str]:
    rows = left_out_rows(contents.audit)
    if rows:
        yield from _aligned(rows, "<>>")


def _masks(contents: Contents) -> Iterator[str]:
    rows = mask_rows(contents.audit)
    if rows:
        yield from _aligned(rows, "<<>>>>")


def _verdict(verdict: Verdict) -> Iterator[str]:
    if not verdict.rows and not verdict.basic_sentence:
        return
    yield from wrap(verdict.sentence, _WIDTH)
    rows = [
        (item.sign, _shorten(item.label), item.value, f"required {item.required}", item.outcome)
        for item in verdict.rows
    ]
    yield from _aligned(rows, "<<><")
    yield from wrap(verdict.basic_sentence, _WIDTH)


def _headlines(items: Iterable[Headline]) -> Iterator[str]:
    yield from _aligned([(item.value, item.label, item.explanation) for item in items], "><")


def _roles(groups: Iterable[RoleGroup]) -> Iterator[str]:
    yield from _facts([Fact(group.label, ", ".join(group.columns)) for group in groups])


def _bullets(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from wrap(text, _WIDTH, initial_indent="- ", subsequent_indent="  ")


def _facts(items: Sequence[Fact]) -> Iterator[str]:
    width = min(max((len(item.label) for item in items), default=0), _NAME_WIDTH) + 2
    for item in items:
        yield from _hanging(_shorten(item.label).ljust(width), item.text)


def _measures(contents: Contents) -> Iterator[list[str]]:
    for section in arrange(contents.audit):
        rows = [_row(row) for row in measure_rows((*section.overall, *section.by_column))]
        yield _section(section.heading, _aligned([_HEADINGS, *rows], "<><<"))


def _row(row: MeasureRow) -> tuple[str, ...]:
    meaning = f"{row.meaning} ({row.interval})" if row.interval else row.meaning
    return _shorten(row.name), row.value, row.unit, row.better, meaning


def _aligned(rows: Sequence[tuple[str, ...]], alignments: str) -> Iterator[str]:
    """Align all columns but the last, which is wrapped; ``alignments`` are "<" or ">"."""
    widths = [max((len(row[place]) for row in rows), default=0) for place in range(len(alignments))]
    for row in rows:
        cells = (
            f"{cell:{alignment}{width}}  "
            for cell, alignment, width in zip(row, alignments, widths, strict=False)
        )
        yield from _hanging("".join(cells), row[-1])


def _shorten(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 1]}…"


def _hanging(start: str, text: str) -> Iterator[str]:
    """Wrap a text after ``start``, with the following lines indented."""
    for line in wrap(text, max(_WIDTH - len(start), 20)) or [""]:
        yield f"{start}{line}".rstrip()
        start = " " * len(start)
