"""Create ``.venv`` and install microcell in it: ``environment.py demo`` or ``environment.py dev``.

``demo`` installs what the demo needs, ``dev`` everything, development tools included. Versions come
from requirements.lock. Packages are installed with uv if it is there or pip can fetch it, because
it is several times as fast, and otherwise with pip. Only the standard library is used, and Python
3.8 can run this file, so that an old Python gets a message instead of a syntax error.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
FETCHED = ROOT / "build" / "uv"
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
PYTHON = VENV / SCRIPTS / ("python.exe" if os.name == "nt" else "python")
OLDEST = (3, 11)
NEWEST = (3, 14)
INSTALLS = {
    "demo": [["--constraint", "requirements.lock", "--editable", ".[report]"]],
    "dev": [["--requirement", "requirements.lock"], ["--no-deps", "--editable", "."]],
}


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=INSTALLS)
    what = parser.parse_args().what
    if sys.version_info < OLDEST:
        sys.exit(old_python_message(sys.version_info, shutil.which))
    os.chdir(ROOT)
    os.environ.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    os.environ.pop("VIRTUAL_ENV", None)
    print("Installing packages in .venv ...", flush=True)
    uv = find_uv()
    if not (uv and install_with_uv(uv, INSTALLS[what])):
        print("Installing with pip, which takes longer than with uv.", flush=True)
        install_with_pip(INSTALLS[what])
    # Everything includes what the demo needs.
    for stamp in {"demo", what}:
        (VENV / (".ready-" + stamp)).touch()


def old_python_message(version, which):
    """Return one line that says what to run instead, with a newer Python if there is one."""
    minors = range(NEWEST[1], OLDEST[1] - 1, -1)
    newer = next((name for name in map("python3.{}".format, minors) if which(name)), None)
    advice = "" if newer else "Install one from https://www.python.org/downloads. "
    return (
        f"microcell needs Python {OLDEST[0]}.{OLDEST[1]} or newer, and this is "
        f"{version[0]}.{version[1]}. {advice}Run: make PYTHON={newer or 'python3.12'} demo"
    )


def find_uv():
    """Return the path of uv, fetched with pip if it is not installed; None if that fails."""
    fetched = FETCHED / "bin" / ("uv.exe" if os.name == "nt" else "uv")
    path = shutil.which("uv") or (str(fetched) if fetched.exists() else None)
    if path:
        return path
    # Into a separate folder: the environment does not need pip then, which takes seconds.
    fetch = ["--quiet", "--retries", "1", "--target", str(FETCHED), "uv"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *fetch],
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return str(fetched) if done.returncode == 0 and fetched.exists() else None


def install_with_uv(uv, installs):
    """Create the environment and install; return whether it worked."""
    commands = [[uv, "pip", "install", "--quiet", "--python", str(PYTHON), *x] for x in installs]
    if not PYTHON.exists():
        commands.insert(0, [uv, "venv", "--quiet", "--python", sys.executable, str(VENV)])
    return all(subprocess.run(command, check=False).returncode == 0 for command in commands)


def install_with_pip(installs):
    """Create the environment and install; exit with one line if that fails."""
    has_pip = PYTHON.exists() and run_quietly([str(PYTHON), "-m", "pip", "--version"])
    create = [sys.executable, "-m", "venv", str(VENV)]
    if not has_pip and subprocess.run(create, check=False).returncode != 0:
        sys.exit("Could not create .venv. On Debian and Ubuntu, run: apt install python3-venv")
    for arguments in installs:
        command = [str(PYTHON), "-m", "pip", "install", "--quiet", *arguments]
        if subprocess.run(command, check=False).returncode != 0:
            sys.exit(
                "Could not install the packages. Check the network, or set PIP_INDEX_URL to a "
                "package index that you can reach."
            )


def run_quietly(command):
    """Return whether a command succeeds."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    main()
