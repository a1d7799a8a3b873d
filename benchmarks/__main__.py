"""``python -m benchmarks [quick|full]``: run the cases, print them, keep them as JSON."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import auditing, cases

RESULTS = Path(__file__).parent / "results"

PROFILES: dict[str, list[tuple[str, Callable[[], list[cases.Row]]]]] = {
    "quick": [
        ("MDAV against plain NumPy", lambda: cases.mdav_against_numpy(10_000)),
        ("Memory", lambda: cases.mdav_memory(1_000_000)),
        ("Least distortion", lambda: cases.least_distortion(10_000, 10, ("fast", "balanced"))),
        ("Constrained Lloyd", lambda: cases.constrained_lloyd(8_192)),
        ("Constrained k-means", cases.constrained_k_means),
        ("Audit of a large table", lambda: auditing.large_audit(100_000)),
        ("Anonymity against pyCANON", lambda: auditing.anonymity_against_pycanon(5_000)),
        ("Start-up", cases.start_up),
    ],
    "full": [
        ("MDAV against plain NumPy", lambda: cases.mdav_against_numpy(50_000)),
        ("Memory", lambda: cases.mdav_memory(1_000_000)),
        ("Other methods", lambda: cases.other_methods(20_000)),
        ("Least distortion", lambda: cases.least_distortion(50_000, 15, ("fast", "balanced", 60))),
        ("Least distortion, 10,000 records", lambda: cases.least_distortion(10_000, 10, ("balanced", 30))),
        ("Constrained Lloyd", lambda: cases.constrained_lloyd(65_536)),
        ("Constrained k-means", cases.constrained_k_means),
        ("Scaling of the default", lambda: cases.scaling_of_auto((100_000, 300_000, 1_000_000, 3_000_000))),
        ("Scaling", lambda: cases.scaling((12_500, 25_000, 50_000, 100_000))),
        ("Audit of a large table", lambda: auditing.large_audit(1_000_000)),
        ("Anonymity against pyCANON", lambda: auditing.anonymity_against_pycanon(50_000)),
        ("Start-up", cases.start_up),
    ],
}


def show(value: object) -> str:
    """A figure in four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Run a profile."""
    profile = sys.argv[1] if len(sys.argv) > 1 else "full"
    if profile not in PROFILES:
        sys.exit(f"No profile {profile!r}; choose {' or '.join(PROFILES)}.")
    results: dict[str, object] = {"profile": profile, "machine": cases.machine()}
    for title, case in PROFILES[profile]:
        print(f"\n{title}")
        results[title] = rows = case()
        for row in rows:
            print(
                "  " + ", ".join(f"{key} {show(value)}" if key != "case" else str(value) for key, value in row.items())
            )
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{profile}.json"
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"\nwritten: {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name}")


if __name__ == "__main__":
    main()
