"""The script that makes a release again, for people who work in Python."""

from collections.abc import Mapping
from typing import Any

__all__ = ["python_script"]

_SCRIPT = '''"""Make the release {name} again, byte for byte, from the original table.

Run it in this folder: python reproduce.py
It reads run.toml, which names the original table, and the manifest, which contains the order key.
Keep both private.
"""

from pathlib import Path

import microcell as mc

folder = Path(__file__).parent
run = mc.schema.load_run(folder / "run.toml")
release = mc.anonymize(
    mc.read(run.input, **run.read),
    run.schema,
{arguments})
release = release.publish(run.output{options})
print(release.guarantee)
'''


def python_script(name: str, settings: Mapping[str, Any], *, escape_formulas: bool) -> str:
    """Return the script. ``settings`` are the arguments of ``anonymize``, besides the order key."""
    arguments = {**settings, "order_key": "run.order_key"}
    lines = [
        f"    {key}={value if key == 'order_key' else repr(value)},\n"
        for key, value in arguments.items()
    ]
    options = ", escape_formulas=True" if escape_formulas else ""
    return _SCRIPT.format(name=name, arguments="".join(lines), options=options)
