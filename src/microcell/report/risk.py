"""The report on the risk of a single table: text, JSON and HTML, without a value of the table."""

import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from math import isfinite
from textwrap import wrap
from typing import Any

from microcell._display import percent
from microcell.errors import OptionError
from microcell.model import Measure, TableRisk
from microcell.report import figures
from microcell.report.json import finding_entry
from microcell.report.wording import counted, format_interval, join_words

__all__ = ["MAX_RECORDS", "RISK_VERSION", "render_risk"]

RISK_VERSION = 1
"""Version of the JSON format; it increases when a field changes its name or meaning."""

MAX_RECORDS = 20
"""Number of records at risk that are listed."""

_MAX_COMBINATIONS = 15
_WIDTH = 100

_LABELS = {
    "k": "Smallest class (k)",
    "classes": "Classes",
    "unique_people": "Unique",
    "people_below_k": "In classes below k = {k}",
    "classes_below_k": "Classes below k = {k}",
    "prosecutor_worst": "Prosecutor risk, highest",
    "prosecutor_average": "Prosecutor risk, average",
    "marketer": "Marketer risk",
    "journalist_worst": "Journalist risk, highest",
    "journalist_average": "Journalist risk, average",
    "expected_reidentifications": "Expected re-identifications",
    "unique_in_population": "Unique in the table and the population",
    "highest_risk": "Highest risk of a record",
    "population_uniques": "Unique in the population",
    "population_uniques.pitman": "  by Pitman's model",
    "population_uniques.zayatz": "  by Zayatz's model",
    "population_uniques.snb": "  by the shifted negative binomial",
    "correct_match": "Correct match, given a unique match",
}
_COLUMN_HEADINGS = (
    "Column",
    "Values",
    "Missing",
    "Unique alone",
    "Unique without",
    "k without",
    "Share of SUDA",
)
_RECORD_HEADINGS = ("Row", "People", "SUDA score", "Singled out by")


def render_risk(result: TableRisk, format: str, *, title: str, most: int = MAX_RECORDS) -> str:
    """Return the report in a format: "text", "json" or "html".

    ``most`` is the number of records at risk that it lists.
    """
    if format == "text":
        return _text(result, title, most)
    if format == "json":
        return _json(result, title, most)
    if format == "html":
        return _html(result, title, most)
    raise OptionError(
        f"Unknown report format {format!r}. Choose one of text, json, html.",
        code="option.unknown",
        option="format",
    )


def sentence(result: TableRisk) -> str:
    """Summarize the risk in one sentence."""
    unique = int(result["unique_people"])
    total = int(result.class_sizes.sum())
    keys = join_words(result.keys)
    if unique:
        verb = "is" if unique == 1 else "are"
        return (
            f"{counted(unique, result.unit).capitalize()} of {total:,} "
            f"({percent(unique / total)}) {verb} unique by {keys}: anyone who knows "
            "these values of such a person can find their record."
        )
    k = int(result["k"])
    return (
        f"Nobody is unique by {keys}: every combination of values is shared by at least "
        f"{counted(k, result.unit)} (k = {k:,})."
    )


def facts(result: TableRisk) -> list[tuple[str, str, str]]:
    """Return label, value and interval of each measure of the table."""
    return [_fact(item, result) for item in result.measures.values() if item.name in _LABELS]


def population_facts(result: TableRisk) -> list[tuple[str, str, str]]:
    """Return label, value and interval of each estimate for the population."""
    if result.population is None:
        return []
    return [_fact(item, result) for item in result.population.measures.values()]


def _fact(item: Measure, result: TableRisk) -> tuple[str, str, str]:
    label = _LABELS[item.name].format(k=result.threshold)
    value = f"{item.value:,.0f}" if item.unit == "people" and item.value >= 10 else item.format()
    interval = format_interval(item)
    if item.unit == "people" and item.interval is not None:
        interval = "95 % interval {:,.0f} to {:,.0f}".format(*item.interval)
    return label, value, interval.removeprefix("estimate, ")


def population_sentence(result: TableRisk) -> str:
    """Say what the estimates are based on."""
    if result.population is None:
        return (
            "The population is not known. Pass its size (--population), or name the sampling "
            "weights in the schema, to estimate who is unique in it."
        )
    source = "sum of the weights" if result.population.source == "weights" else "as given"
    return (
        f"Population of {result.population.size:,} ({source}); the table contains "
        f"{percent(result.population.fraction)} of it."
    )


def column_rows(result: TableRisk) -> list[tuple[str, ...]]:
    """Return the contribution of each column as texts, the largest first."""
    ordered = sorted(result.columns, key=lambda item: (-item.suda, item.unique_without))
    return [
        (
            item.name,
            f"{item.distinct:,}",
            f"{item.missing:,}",
            f"{item.unique_alone:,}",
            f"{item.unique_without:,}",
            f"{item.k_without:,}",
            percent(item.suda),
        )
        for item in ordered
    ]


def combination_rows(result: TableRisk) -> list[tuple[str, str]]:
    """Return the first minimal unique combinations, with the number of rows they single out."""
    listed = result.combinations[:_MAX_COMBINATIONS]
    return [(", ".join(item.columns), f"{item.rows:,}") for item in listed]


def record_rows(result: TableRisk, most: int) -> list[tuple[str, ...]]:
    """Return the records at risk as texts."""
    return [
        (
            f"{item.row:,}",
            f"{item.people:,}",
            f"{item.score:,.0f}",
            ", ".join(item.columns) or f"{item.people} people share all values",
        )
        for item in result.at_risk(most)
    ]


# ------------------------------------------------------------------------------------- formats


def _text(result: TableRisk, title: str, most: int) -> str:
    blocks = [
        [*wrap(title, _WIDTH), "=" * min(len(title), _WIDTH)],
        wrap(sentence(result), _WIDTH),
        _section("Notes", (line for note in result.notes for line in _bullet(note))),
        _section("Findings", (line for item in result.findings for line in _bullet(str(item)))),
        _section("The table", _align(facts(result), "<><")),
        _section(
            "The population",
            [*wrap(population_sentence(result), _WIDTH), *_align(population_facts(result), "<><")],
        ),
        _section("Columns", _align([_COLUMN_HEADINGS, *column_rows(result)], "<>>>>>>")),
        _section(
            f"Smallest unique combinations ({len(result.combinations):,} in all)",
            _align([("Columns", "Rows"), *combination_rows(result)], "<>"),
        )
        if result.combinations
        else [],
        _section(
            f"Records at risk ({result.n_at_risk:,} in classes below {result.threshold})",
            _align([_RECORD_HEADINGS, *record_rows(result, most)], ">>><"),
        )
        if result.n_at_risk
        else [],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _section(heading: str, lines: Any) -> list[str]:
    body = list(lines)
    return [heading, "-" * len(heading), *body] if body else []


def _bullet(text: str) -> Iterator[str]:
    yield from wrap(text, _WIDTH, initial_indent="- ", subsequent_indent="  ")


def _align(rows: Sequence[Sequence[str]], directions: str) -> Iterator[str]:
    widths = [max(len(row[j]) for row in rows) for j in range(len(directions))] if rows else []
    for row in rows:
        cells = [f"{cell:{d}{w}}" for cell, d, w in zip(row, directions, widths, strict=True)]
        yield "  ".join(cells).rstrip()


def _json(result: TableRisk, title: str, most: int) -> str:
    population = result.population
    content = {
        "risk_version": RISK_VERSION,
        "title": title,
        "keys": list(result.keys),
        "person": list(result.person),
        "drafted": result.drafted,
        "rows": result.rows,
        "threshold": result.threshold,
        "rows_at_risk": result.n_at_risk,
        "measures": {name: _measure(item) for name, item in result.measures.items()},
        "population": None
        if population is None
        else {
            "size": population.size,
            "source": population.source,
            "fraction": population.fraction,
            "model": population.model,
            "measures": {name: _measure(item) for name, item in population.measures.items()},
        },
        "columns": [vars(item) for item in result.columns],
        "largest_combination": result.largest,
        "combinations": [
            {"columns": list(item.columns), "rows": item.rows} for item in result.combinations
        ],
        "records": [{**vars(item), "columns": list(item.columns)} for item in result.at_risk(most)],
        "findings": [finding_entry(item) for item in result.findings],
        "notes": list(result.notes),
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _measure(item: Measure) -> dict[str, Any]:
    interval = item.interval
    return {
        "value": item.value if isfinite(item.value) else None,
        "unit": item.unit,
        "interval": None if interval is None else [x if isfinite(x) else None for x in interval],
        "meaning": item.meaning,
    }


def _html(result: TableRisk, title: str, most: int) -> str:
    # Loaded on demand: importing the template library would slow down every start.
    html = import_module("microcell.report.html")
    page: str = html.render_template(
        "risk.html",
        title=title,
        sentence=sentence(result),
        tone="good" if result["k"] >= result.threshold else "bad",
        notes=result.notes,
        findings=result.findings,
        facts=facts(result),
        meanings=[
            (_LABELS[item.name].format(k=result.threshold).strip(), item.meaning)
            for item in (
                *result.measures.values(),
                *(result.population.measures.values() if result.population else ()),
            )
            if item.name in _LABELS
        ],
        population_sentence=population_sentence(result),
        population=population_facts(result),
        column_headings=_COLUMN_HEADINGS,
        columns=column_rows(result),
        combinations=combination_rows(result),
        n_combinations=len(result.combinations),
        record_headings=_RECORD_HEADINGS,
        records=record_rows(result, most),
        n_at_risk=result.n_at_risk,
        threshold=result.threshold,
        pictures=figures.draw_risk(result) if figures.available() else (),
        figures_available=figures.available(),
    )
    return page
