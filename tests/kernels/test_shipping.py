"""Where kernels come from: the archive in a wheel, the cache on disk, or the compiler."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from numba.core import event

from microcell.kernels import _build, _cache, _jit, linkage, univariate

ROOT = Path(__file__).parent.parent.parent
LINE = "univariate.best_cuts(float64[::1], float64[::1], int64)"


# ---------------------------------------------------------------------------------- the list


def test_every_kernel_is_listed_once_and_no_other():
    _build.import_kernels()
    lines = _build.read_signatures()
    assert len(set(lines)) == len(lines)
    assert {line.partition("(")[0] for line in lines} == set(_jit.KERNELS)
    assert set(_build.read_signatures(_build.ESSENTIAL)) < set(lines)


@pytest.mark.parametrize("line", _build.read_signatures(), ids=lambda line: line.partition("(")[0])
def test_signatures_name_types(line):
    name, types = _build.parse(line)
    assert _cache.entry_name(name, types) == line
    assert len(types) == _jit.KERNELS[name].py_func.__code__.co_argcount
    for type_ in types:
        fields = getattr(type_, "instance_class", None)
        assert fields is None or len(type_.types) == len(fields._fields)


# ------------------------------------------------------------------------------- the archive


@pytest.fixture(scope="module")
def packed():
    """The object code of one kernel."""
    kernel = _jit.numba.njit(nogil=True, error_model="numpy")(univariate.best_cuts.py_func)
    _, types = _build.parse(LINE)
    kernel.compile(types)
    return _cache.pack(kernel.overloads[types])


@pytest.fixture
def archive(tmp_path, monkeypatch, packed):
    """An archive of one kernel in place of the one of a wheel."""
    path = tmp_path / _cache.archive_name()
    with zipfile.ZipFile(path, "w") as file:
        stamps = {"univariate": _cache.source_stamp("univariate")}
        file.writestr(_cache.ABOUT, json.dumps({"stamps": stamps}))
        file.writestr(LINE, packed)
    monkeypatch.setattr(_cache, "FOLDER", tmp_path)
    monkeypatch.setattr(_cache, "open_archive", _cache.open_archive.__wrapped__)
    return path


def loads():
    actual = _cache.open_archive()
    if actual is None:
        return False
    types = _build.parse(LINE)[1]
    context = univariate.best_cuts.targetctx
    return actual.load(univariate.best_cuts.py_func, types, context) is not None


def test_a_shipped_kernel_is_loaded(archive):
    assert loads()
    assert str(ROOT).encode() not in zipfile.ZipFile(archive).read(LINE)


def test_another_version_of_numba_is_not_served(archive, monkeypatch):
    monkeypatch.setattr(_cache.numba, "__version__", "0.0.1")
    assert not loads()


def test_an_old_cpu_is_not_served(archive, monkeypatch):
    monkeypatch.setattr(_cache, "baseline", lambda: _cache.Baseline("future", frozenset({"time"})))
    assert not loads()


def test_an_unknown_architecture_is_not_served(archive, monkeypatch):
    monkeypatch.setattr(_cache.platform, "machine", lambda: "riscv64")
    assert not loads()


def test_changed_sources_are_not_served(archive, monkeypatch):
    monkeypatch.setattr(_cache, "source_stamp", lambda _: "changed")
    assert not loads()


def test_native_code_can_be_requested(archive, monkeypatch):
    monkeypatch.setenv("MICROCELL_KERNELS", "native")
    assert not loads()


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped"])
def test_a_damaged_archive_is_ignored(archive, damage):
    content = bytearray(archive.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 255
    archive.write_bytes({"empty": b"", "cut": content[:-100]}.get(damage, content))
    assert not loads()


# ------------------------------------------------------------------------------ cache on disk


def test_the_stamp_follows_imported_modules(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("from microcell.kernels.b import x\n", encoding="utf-8")
    (tmp_path / "b.py").write_text("from microcell.kernels.a import y\nx = 1\n", encoding="utf-8")
    monkeypatch.setattr(_cache, "__file__", str(tmp_path / "_cache.py"))
    stamp = _cache.source_stamp.__wrapped__
    before = stamp("a")
    assert stamp("a") == before
    (tmp_path / "b.py").write_text("from microcell.kernels.a import y\nx = 2\n", encoding="utf-8")
    assert stamp("a") != before


def test_callers_of_a_cached_parallel_kernel_start_its_threads():
    """A kernel compiled to call one from the cache would crash in a process without threads."""
    kernel = linkage._scan_all
    (line,) = (line for line in _build.read_signatures() if line.startswith("linkage._scan_all("))
    types = _build.parse(line)[1]
    kernel.compile(types)
    cached = _cache.KernelCache(kernel.py_func).load_overload(types, kernel.targetctx)
    assert cached.reload_init
    assert set(cached.reload_init) <= cached.library._reload_init


def test_a_full_disk_does_not_stop_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(_cache.config, "CACHE_DIR", str(tmp_path))
    cache = _cache.KernelCache(univariate.best_cuts.py_func)
    kernel = _jit.numba.njit(univariate.best_cuts.py_func)
    kernel._cache = cache

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.disk._cache_file, "save", fail)
    types = _build.parse(LINE)[1]
    kernel.compile(types)
    assert types in kernel.overloads


def test_compiling_on_every_run_is_reported(monkeypatch):
    cache = _cache.KernelCache(univariate.best_cuts.py_func)
    cache.__dict__["disk"] = None
    reported = []
    monkeypatch.setattr(_jit.progress, "report", reported.append)
    kernel = _jit.numba.njit(univariate.best_cuts.py_func)
    kernel._cache = cache
    notice = _jit._CompileNotice()
    with event.install_listener("numba:compile", notice):
        kernel.compile(_build.parse(LINE)[1])
    assert set(reported) == {_jit.progress.COMPILING_ALWAYS}


# ---------------------------------------------------------------------------------- a wheel

COUNT = """
    import hashlib, json, sys
    import numba, llvmlite.binding
    import numpy as np
    from numba.core import event

    class Count(event.Listener):
        compiled = 0
        def on_start(self, _):
            Count.compiled += 1
        def on_end(self, _):
            pass

    event.register("numba:compile", Count())
    {before}
    import microcell as mc

    def work():
        {work}

    result = work()
    digest = hashlib.sha256(repr(result).encode()).hexdigest()
    print(json.dumps({{"compiled": Count.compiled, "digest": digest}}))
"""

EVERYTHING = """
        people, schema, labels = mc.sample_survey(600), mc.sample_schema(), []
        for k in (5, 10):
            release = mc.anonymize(people, schema, k=k)
            mc.audit(people, release.table, schema)
            labels.append(release.partition.labels.tolist())
        for kind in ("power", "balls"):
            release = mc.anonymize(people, schema, k=3, method="mdav", cells=kind)
            labels.append(mc.assign(release.cells, people).labels.tolist())
        service = mc.locations.Anonymizer.open(
            "sqlite://", 3, key=bytes(range(32)), background=False, share=0.5
        )
        rng = np.random.default_rng(0)
        for latitude, longitude in rng.normal((41.4, 2.2), 0.1, size=(60, 2)):
            account = service.sign_up(latitude, longitude)
        labels.append([(cell.number, cell.size) for cell in service.overview().cells])
        return labels
"""

EVERY_METHOD = """
        people, schema = mc.sample_survey(200), mc.sample_schema()
        for name, method in mc.methods.METHODS.items():
            X = np.random.default_rng(0).normal(size=(200, 1 if method.dimensions == "1" else 3))
            for refine in (False, True):
                mc.partition(X, 3, method=name, refine=refine)
        mc.explore(people, schema, k=3, options={"effort": "fast"})
"""

ONE_KERNEL = """
        X = np.random.default_rng(0).normal(size=(50, 1))
        return mc.partition(X, 3, method="univariate").labels.tolist()
"""


@dataclass(frozen=True)
class Environment:
    """An environment of its own: its Python, and a function that runs a command there."""

    python: Path
    run: Callable[..., str]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A wheel with kernels in an environment of its own, with the core and the extra locations."""
    uv = shutil.which("uv") or shutil.which("uv", path=Path(sys.executable).parent)
    if uv is None:
        pytest.skip("uv is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    clean = {key: value for key, value in os.environ.items() if key not in _UNWANTED}
    clean |= {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    clean |= {"UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv"))}

    def run(*command, folder=folder, **variables):
        done = subprocess.run(
            [str(part) for part in command],
            cwd=folder,
            env=clean | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode and "error sending request" in done.stderr:
            pytest.skip("no network to fetch packages")
        assert done.returncode == 0, done.stderr
        return done.stdout

    build = (uv, "build", "--wheel", "--python", sys.executable, "--out-dir", folder / "dist", ROOT)
    run(*build, MICROCELL_BUILD_KERNELS="1")
    (wheel,) = (folder / "dist").glob("*.whl")
    assert "-none-any" not in wheel.name
    run(uv, "venv", "--python", sys.executable, folder / "env")
    python = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    constraint = ("--constraint", ROOT / "requirements.lock")
    run(uv, "pip", "install", "--python", python, *constraint, f"{wheel}[locations]")
    return Environment(python, run)


@pytest.fixture(scope="module")
def installed(environment):
    """A function that runs code in the environment and counts what is compiled."""

    def measure(work, before="", python=environment.python, **variables):
        body = textwrap.indent(textwrap.dedent(work), " " * 4).strip()
        code = textwrap.dedent(COUNT).format(before=before, work=body)
        return json.loads(environment.run(python, "-c", code, **variables).splitlines()[-1])

    return measure


@pytest.fixture(scope="module")
def one_kernel(installed):
    """What a run with one kernel from the wheel gives."""
    outcome = installed(ONE_KERNEL)
    assert outcome["compiled"] == 0
    return outcome


_UNWANTED = {"PYTHONPATH", "NUMBA_CACHE_DIR", "NUMBA_CPU_NAME", "VIRTUAL_ENV"}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_wheel_compiles_nothing_and_gives_the_labels_of_native_code(installed):
    """Native code is that of the development environment, most of which is compiled already."""
    shipped = installed(EVERYTHING)
    assert shipped["compiled"] == 0
    native = installed(EVERYTHING, python=sys.executable, MICROCELL_KERNELS="native")
    assert shipped["digest"] == native["digest"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_list_contains_the_kernels_of_every_method(installed):
    assert installed(EVERY_METHOD)["compiled"] == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "before",
    [
        'numba.__version__ = "0.0.1"',
        "llvmlite.binding.get_host_cpu_features = llvmlite.binding.targets.FeatureMap",
    ],
)
def test_a_wheel_falls_back_to_the_users_cache(installed, one_kernel, tmp_path, before):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first = installed(ONE_KERNEL, before, **cache)
    again = installed(ONE_KERNEL, before, **cache)
    assert first["compiled"] > 0
    assert again["compiled"] == 0
    assert first["digest"] == again["digest"] == one_kernel["digest"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_read_only_folders_do_not_stop_a_wheel(installed, one_kernel):
    """Neither the package folder nor the user's cache directory can be written to."""
    before = (
        "from numba.core import caching\ndef refuse(self): raise PermissionError\n"
        "{}.ensure_cache_path = refuse"
    )
    package = before.format("caching.InTreeCacheLocator")
    expected = one_kernel["digest"]
    native = {"MICROCELL_KERNELS": "native"}
    assert installed(ONE_KERNEL, package)["compiled"] == 0
    assert installed(ONE_KERNEL, package, **native)["digest"] == expected
    assert installed(ONE_KERNEL, package, **native)["compiled"] == 0
    nowhere = before.format("caching._CacheLocator")
    assert installed(ONE_KERNEL, nowhere)["compiled"] == 0
    outcome = installed(ONE_KERNEL, nowhere, **native)
    assert outcome["compiled"] > 0
    assert outcome["digest"] == expected


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_wheel_in_an_empty_environment_runs_the_readme(environment, tmp_path):
    """Without matplotlib; the report has no figures then."""
    python, run = environment.python, environment.run
    code = "from importlib.metadata import distributions as d; print([x.name for x in d()])"
    packages = run(python, "-c", code)
    assert "narwhals" in packages
    assert not re.search("matplotlib|fastexcel|xlsxwriter|fpdf2|scikit-learn|pytest", packages)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[1]
    for line in block.splitlines():
        _, *arguments = line.partition("    #")[0].split()
        run(python, "-m", "microcell", *arguments, folder=tmp_path)
    assert "microcell[report]" in (tmp_path / "people_k5.html").read_text(encoding="utf-8")
    demo = run(python, "-m", "microcell", "demo", "--records", "300", "--json", folder=tmp_path)
    assert '"revealed": 0' in demo
