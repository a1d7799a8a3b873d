"""``python -m benchmarks.adversary [quick|full]``: attack releases and store the rates as JSON.

A full run also writes docs/attacks.md and the sentence in the README.
"""

import argparse
import json
from pathlib import Path

from benchmarks.adversary import page
from benchmarks.adversary.grid import PROFILES, run

__all__: list[str] = []


def main() -> None:
    """Run a profile; exit with 1 if an attack that must fail recovers anything beyond guessing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adversary", description=__doc__)
    parser.add_argument("profile", nargs="?", default="full", choices=PROFILES)
    parser.add_argument("--output", type=Path, help="file for the results; no page is written")
    options = parser.parse_args()
    path = options.output or page.RESULTS.with_name(f"attacks-{options.profile}.json")
    results = {"profile": options.profile, **run(PROFILES[options.profile], print)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"written: {path.name}")
    if path == page.RESULTS:
        page.write()
    print(page.summary(results))
    if page.totals(results)["beyond"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
