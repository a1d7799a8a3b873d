"""``microcell audit``: what an outsider finds who compares a release with its original."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import microcell as mc
from microcell.cli._console import Words, print_data
from microcell.cli._failures import guarded
from microcell.cli._options import Json, Quiet, SchemaFile, takes_reading
from microcell.errors import OptionError
from microcell.staging import Staging, check_target

if TYPE_CHECKING:
    from microcell import Audit

__all__ = ["EXAMPLES", "audit"]

EXAMPLES = (
    "microcell audit people.csv people_k5.csv -s schema.toml",
    "microcell audit people.csv people_k5.csv -s schema.toml --require k=5 --require 'distortion<=0.2'",
    "microcell audit people.csv people_k5.csv -s schema.toml --report audit.html --json",
)

_REQUIREMENT = re.compile(r"(?P<name>.*[^<>=\s])\s*(?P<operator><=|>=|=)\s*(?P<limit>[^<>=]+)")
_LEAST_K = 2
"""What is required where neither the manifest nor the user says more: nobody alone."""


@guarded
@takes_reading
def audit(
    *,
    reading: Mapping[str, Any],
    original: Annotated[Path, typer.Argument(metavar="ORIGINAL", help="The table as it was.", show_default=False)],
    released: Annotated[Path, typer.Argument(metavar="RELEASED", help="The published table.", show_default=False)],
    schema: SchemaFile,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEASURE=LIMIT",
            help="A limit to meet, such as k=5 or distortion<=0.1; repeatable. In any case k is to be what the "
            "manifest promises (without one, 2), identifiers are to be gone, and records accounted for.",
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page with figures.", show_default=False)
    ] = None,
    manifest: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="The release's manifest, if not beside it.", show_default=False),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Audit a published table against its original: true k, classes, records, identifiers, distortion."""
    words = Words(quiet)
    requirements = _parse_requirements(require or ())
    account = mc.find_manifest(manifest, released)
    if report is not None:
        check_target(report, sources=(original, released, schema, manifest or mc.manifest_path(released)))
    with words.progress():
        before, after = mc.read(original, **reading), mc.read(released, **_as_written(reading, original, released))
        found = mc.audit(before, after, mc.load_schema(schema), manifest=account)
    _check_directions(found, requirements)
    title = f"Audit of {released.name}"
    if report is not None:
        with Staging() as staging:
            page = mc.render(found, "html", manifest=account, title=title)
            staging.path(report).write_text(page, encoding="utf-8")
    print_data(mc.render(found, "json" if json else "text", manifest=account, title=title))
    if report is not None:
        words.list([("report", str(report))])
    found.require(**{"k": _promised(account), **{item.measure: item.limit for item in requirements}})


@dataclass(frozen=True)
class _Requirement:
    """A limit for a measure, as the user wrote it."""

    measure: str
    operator: str
    limit: float


def _promised(manifest: Mapping[str, Any] | None) -> float:
    """The k that the release promises."""
    promised = (manifest or {}).get("k")
    return promised if type(promised) is int and promised > _LEAST_K else _LEAST_K


def _as_written(reading: Mapping[str, Any], original: Path, released: Path) -> dict[str, Any]:
    """The options for reading that hold for the release too: in UTF-8, it is in the original's dialect otherwise."""
    same = original.suffix.lower() == released.suffix.lower()
    return {name: reading[name] for name in ("delimiter", "quote", "decimal") if same and name in reading}


def _parse_requirements(texts: Iterable[str]) -> tuple[_Requirement, ...]:
    requirements = [_parse_requirement(text) for text in texts]
    names = [item.measure for item in requirements]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise OptionError(f"--require gives two limits for {twice[0]!r}. Give one.")
    return tuple(requirements)


def _parse_requirement(text: str) -> _Requirement:
    found = _REQUIREMENT.fullmatch(text.strip())
    try:
        limit = float(found["limit"]) if found else float("nan")
    except ValueError:
        limit = float("nan")
    if found is None or not isfinite(limit):
        raise OptionError(
            f"--require takes a measure, one of = >= <=, and a number, such as k=5 or distortion<=0.1, not {text!r}."
        )
    return _Requirement(found["name"].strip(), found["operator"], limit)


def _check_directions(found: "Audit", requirements: Sequence[_Requirement]) -> None:
    """Refuse a limit on the wrong side, which a release could meet by being bad."""
    for item in requirements:
        measure = found.measures.get(item.measure)
        right = None if measure is None else "<=" if measure.lower_is_better else ">="
        if right is not None and item.operator not in ("=", right):
            better = "less" if right == "<=" else "more"
            raise OptionError(
                f"--require {item.measure}{item.operator}{item.limit:g}: of {item.measure}, {better} is better. Write "
                f"{item.measure}{right}{item.limit:g}."
            )
