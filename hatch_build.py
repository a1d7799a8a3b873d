"""Build hook: put compiled kernels into a wheel if ``MICROCELL_BUILD_KERNELS`` is 1.

Such a wheel is for one version of Python and one platform. Without the variable the wheel is pure
Python and its kernels are compiled on first use.
"""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.requirements import Requirement

_COMPILER = {"numba", "numpy", "scipy"}
"""Dependencies that the kernels import."""


class CustomBuildHook(BuildHookInterface):
    """Compile the kernels in a process of their own and add the archive to the wheel."""

    def dependencies(self) -> list[str]:
        """Return what a build environment needs in addition."""
        if not self._wanted:
            return []
        required = self.metadata.core.dependencies
        return [line for line in required if Requirement(line).name in _COMPILER]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Handle the start of a build."""
        if not self._wanted or version == "editable":
            return
        source = Path(self.root, "src")
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(source), *filter(None, sys.path)])
        }
        folder = Path(self.root, "build", "kernels")
        command = [sys.executable, "-m", "microcell.kernels._build", str(folder)]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        archive = Path(done.stdout.splitlines()[-1])
        build_data["force_include"][str(archive)] = f"microcell/kernels/compiled/{archive.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"{_python_tag()}-{_platform_tag()}"

    @property
    def _wanted(self) -> bool:
        return os.environ.get("MICROCELL_BUILD_KERNELS") == "1"


def _python_tag() -> str:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{tag}-{tag}{getattr(sys, 'abiflags', '')}"


def _platform_tag() -> str:
    """Return the platforms of the numba wheel, because kernels run wherever it runs."""
    lines = (metadata.distribution("numba").read_text("WHEEL") or "").splitlines()
    tags = [line.rpartition("-")[2] for line in lines if line.startswith("Tag: ")]
    if not tags:
        raise SystemExit("numba is not installed from a wheel, so the platform is unknown.")
    return ".".join(tags)
