"""``microcell methods``: what is registered, and the facts to choose by."""

import json as jsons
from typing import TYPE_CHECKING, Any

import microcell as mc
from microcell.cli._console import Words, print_data, print_facts
from microcell.cli._failures import guarded
from microcell.cli._options import Json, Quiet

if TYPE_CHECKING:
    from microcell import Method

__all__ = ["EXAMPLES", "methods"]

EXAMPLES = ("microcell methods", "microcell methods --json")

_HEADINGS = ("method", "what it does", "cell sizes", "cost for n records", "dimensions", "options", "source")
"""What people call the facts, in their order."""


@guarded
def methods(json: Json = False, quiet: Quiet = False) -> None:
    """List the methods that make cells, with their facts and options."""
    facts = [_facts(method) for method in mc.METHODS.values()]
    if json:
        print_data(jsons.dumps(facts, indent=2))
        return
    for item in facts:
        print_facts([*zip(_HEADINGS, _texts(item), strict=True), ("", "")])
    Words(quiet).say("The default, --method auto, chooses among these by the table and by --effort.")


def _facts(method: "Method") -> dict[str, Any]:
    return {
        "name": method.name,
        "summary": method.summary,
        "sizes": method.sizes,
        "cost": method.cost,
        "dimensions": method.dimensions,
        "options": dict(method.options),
        "source": method.source,
    }


def _texts(facts: dict[str, Any]) -> list[str]:
    options = ", ".join(f"{name}={default}" for name, default in facts["options"].items())
    return [str(value) for value in (facts | {"options": options or "none"}).values()]
