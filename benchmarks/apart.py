"""Run a function in a separate process, so that its time, memory and failures are its own."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["Row", "not_run", "run_apart"]

ROOT = Path(__file__).parent.parent

Row = dict[str, Any]
"""Values by name."""


def not_run(why: str) -> Row:
    """Return the row for something that could not be measured."""
    return {"status": "not run", "why": why}


def run_apart(
    function: str,
    options: Mapping[str, Any],
    *,
    python: str = sys.executable,
    threads: int = 0,
    limit: float = 600.0,
) -> Row:
    """Run ``function`` ("module:name") with ``given``; return its row, or why there is none.

    ``threads`` limits the threads of compiled code (0: no limit). The process is stopped after
    ``limit`` seconds.
    """
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    # The last line of the output is parsed, so neither warnings nor colours may be mixed into it.
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "NO_COLOR": "1",
        "PYTHONWARNINGS": "ignore",
    }
    if threads:
        env |= dict.fromkeys(
            ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads)
        )
    if Path(python) != Path(
        sys.executable
    ):  # with another numba, which would take our compiled kernels for stale
        env.setdefault("NUMBA_CACHE_DIR", str(Path(python).absolute().parent.parent / "numba"))
    words = [python, "-m", "benchmarks.apart", function]
    try:
        done = subprocess.run(
            words,
            input=json.dumps(options),
            capture_output=True,
            text=True,
            timeout=limit,
            env=env,
            cwd=ROOT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return not_run(f"stopped after {limit:g} s")
    except OSError as error:
        return not_run(f"no such Python: {error.strerror}")
    if done.returncode:
        message = done.stderr.strip().splitlines()
        return not_run(message[-1] if message else f"ended with {done.returncode}")
    actual: Row = json.loads(done.stdout.splitlines()[-1])
    return actual


def main() -> None:
    """Entry point of the child process: call the function and print its result."""
    module, _, name = sys.argv[1].partition(":")
    options = json.loads(sys.stdin.read())
    print(json.dumps(getattr(importlib.import_module(module), name)(**options)))


if __name__ == "__main__":
    main()
