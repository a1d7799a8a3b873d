"""Sessions: the table of a case arrives in batches, and one release is published at the end."""

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import microcell as mc
from benchmarks.fuzz.cases import Case, make_case
from benchmarks.fuzz.recount import check, check_refusal, outputs, publish, recount
from benchmarks.fuzz.sources import make_source

__all__ = ["make_session", "run_session"]

_STRATEGIES = ("refined", "refined", "separate", "nearest", "split-late", "split-early")

_REFUSALS = {
    *("schema.unknown_category", "schema.wrong_kind", "data.not_finite", "data.repeated"),
    *(
        "data.empty",
        "option.duplicate_batch",
        "guarantee.requirement_not_met",
        "option.unsupported",
        "option.conflict",
    ),
}


def make_session(seed: int) -> Case:
    """Return a case with settings that a session accepts: no blocks, cells, masks or dependence."""
    case = make_case(seed)
    fields = tuple(
        replace(item, column=None) if item.role == "confidential" else item for item in case.fields
    )
    schema = replace(case.schema, confidential=[column.name for column in case.schema.confidential])
    taken = ("missing", "seed")
    settings = {name: case.settings[name] for name in taken if name in case.settings}
    require = case.settings.get("require", {})
    if not {"dependence_loss", "k"} & set(require):
        settings["require"] = require
    return replace(
        case,
        fields=fields,
        schema=schema,
        source=case.source if not case.source.startswith(".") else "lists",
        method="mdav",
        options={},
        settings=settings,
        with_cells=False,
        fault="",
        refusals=case.refusals | _REFUSALS,
    )


def run_session(seed: int, folder: Path) -> str:
    """Add the table of a case in two to four parts; return the outcome."""
    case, rng = make_session(seed), random.Random(seed + 2)
    output = folder / f"release{case.suffix}"
    n, base = case.n_rows, max(min(2 * case.k, case.n_rows), case.n_rows // 2)
    ends = sorted({0, base, n, *(rng.randint(base, n) for _ in range(rng.randrange(3)))})
    parts = [
        replace(case, fields=tuple(item.take(range(first, last)) for item in case.fields))
        for first, last in pairwise(ends)
    ]
    tables = [make_source(part, folder) for part in parts]
    try:
        session = mc.increments.start(
            tables[0], case.schema, case.k, method=case.method, **case.settings
        )
        for table in tables[1:]:
            session.add(table, strategy=rng.choice(_STRATEGIES), repeated="keep")
        release = publish(session.finish(), case, output)
    except mc.MicrocellError as error:
        check_refusal(case, error)
        check(not list(folder.iterdir()), "a refusal leaves no file")
        return f"session: {error.code}"
    check({path.name for path in folder.iterdir()} == set(outputs(case)), "no other file is left")
    recount(case, release, output)
    return "released from a session"
