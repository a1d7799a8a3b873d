"""Measures of an audit, arranged by section for reports."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from microcell.measures.registry import SECTIONS, Definition, base_name, measures
from microcell.model import Audit, Measure

__all__ = ["Section", "arrange", "definitions"]


@dataclass(frozen=True)
class Section:
    """The measures of a section: those of the whole table, and those of single columns."""

    key: str
    heading: str
    overall: tuple[Measure, ...]
    by_column: tuple[Measure, ...]


def arrange(audit: Audit) -> tuple[Section, ...]:
    """Return all measures of an audit by section, undeclared ones under "Other"."""
    declared = measures()
    order = {name: place for place, name in enumerate(declared)}
    by_section: dict[str, list[Measure]] = {key: [] for key in SECTIONS}
    bases = [base_name(name) for name in audit.measures]
    items = zip(bases, audit.measures.values(), strict=True)
    for base, item in sorted(items, key=lambda pair: order.get(pair[0], len(order))):
        definition = declared.get(base)
        by_section["other" if definition is None else definition.section].append(item)
    return tuple(_split(key, items) for key, items in by_section.items() if items)


def definitions(items: Iterable[Measure]) -> Mapping[str, Definition]:
    """Return the definitions of these measures, in the order of reports."""
    names = {base_name(item.name) for item in items}
    return {name: item for name, item in measures().items() if name in names}


def _split(key: str, items: list[Measure]) -> Section:
    overall = tuple(item for item in items if "." not in item.name)
    by_column = tuple(item for item in items if "." in item.name)
    return Section(key, SECTIONS[key], overall, by_column)
