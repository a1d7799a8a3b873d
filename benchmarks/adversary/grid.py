"""The grid: which attacks run on which tables, methods and outputs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.adversary import (
    buffers,
    differencing,
    digits,
    documents,
    linkage,
    minimality,
    missing,
    outliers,
    ranges,
    repeating,
    row_order,
    settings,
    weights,
)
from benchmarks.adversary.recovery import Attack, Trials, judge

__all__ = ["ATTACKS", "PROFILES", "Profile", "run"]

ATTACKS: tuple[Attack, ...] = (
    row_order.POSITIONS,
    row_order.ORACLE,
    linkage.LINKAGE,
    documents.DOCUMENTS,
    outliers.OUTLIERS,
    ranges.RANGES,
    digits.ALL_BUT_TWO,
    minimality.PLAIN,
    buffers.FILES,
    buffers.MEMORY,
    repeating.COLLECTIONS,
    repeating.SESSIONS,
    differencing.ONE_LEFT,
    differencing.TWO_PARTITIONS,
    digits.ALL_BUT_ONE,
    weights.WEIGHTS,
    weights.PERSONS,
    weights.PUBLISHED,
    missing.MISSING,
    minimality.DEPENDENCE,
    minimality.MERGED,
    minimality.SEARCHED,
)
"""All attacks: first those that a release must resist, then those that the documentation admits."""


@dataclass(frozen=True)
class Profile:
    """Sizes of a run; ``documented`` methods are also published with report and certificate."""

    n: int
    k: tuple[int, ...]
    seeds: int
    methods: tuple[str, ...]
    documented: tuple[str, ...]
    tables: tuple[str, ...] = settings.TABLES
    oracles: int = 20
    outliers: int = 20
    leavers: int = 5
    classes: int = 4


PROFILES = {
    "tiny": Profile(
        36,
        (3,),
        1,
        ("mdav",),
        ("mdav",),
        ("weighted",),
        oracles=4,
        outliers=3,
        leavers=2,
        classes=2,
    ),
    "quick": Profile(60, (3,), 1, tuple(settings.METHODS), ("mdav",)),
    "full": Profile(
        120,
        (3, 5),
        2,
        tuple(settings.METHODS),
        ("auto, fast", "mdav"),
        oracles=100,
        outliers=40,
        leavers=6,
        classes=8,
    ),
}

NOISE = (0.0, 0.1, 0.5)

Row = dict[str, Any]
Report = Callable[[Attack, Trials, Row], None]


def run(profile: Profile, show: Callable[[str], None] = lambda _: None) -> Row:
    """Run all attacks; return rates per attack and per setting, and the information loss."""
    trials: dict[str, list[Trials]] = {attack.name: [] for attack in ATTACKS}
    rows: list[Row] = []
    losses: list[Row] = []

    def report(attack: Attack, several: Trials, about: Row) -> None:
        if several.hits:
            trials[attack.name].append(several)
            rows.append({"attack": attack.name, **about, **judge(several)})
            show(_line(rows[-1]))

    for about, setting in _settings(profile):
        losses.append({**about, "information_loss": setting.release.manifest.information_loss})
        _attack_setting(setting, about, report)
    for method in profile.methods:
        for k in profile.k:
            for seed in range(profile.seeds):
                _attack_method(profile, method, k, seed, report)
    _attack_once(profile, report)
    return {
        "attacks": [
            {**_describe(attack), **judge(Trials.pool(trials[attack.name]))}
            for attack in ATTACKS
            if trials[attack.name]
        ],
        "settings": rows,
        "information_loss": losses,
    }


def _line(row: Row) -> str:
    where = ", ".join(str(row[name]) for name in ("table", "method", "k", "seed") if name in row)
    return (
        f"{row['attack']:36} {where:32} {row['recovered']:5} of {row['total']:5}, guessing "
        f"{row['guessing']:7.1f}, beyond {row['beyond_guessing']}"
    )


def _describe(attack: Attack) -> Row:
    return {name: getattr(attack, name) for name in attack.__dataclass_fields__}


def _settings(profile: Profile) -> Iterator[tuple[Row, settings.Setting]]:
    for table in profile.tables:
        for method in profile.methods:
            for k in profile.k:
                for seed in range(profile.seeds):
                    about = {"table": table, "method": method, "k": k, "seed": seed}
                    with TemporaryDirectory() as folder:
                        yield (
                            about,
                            settings.publish(
                                table,
                                method,
                                k,
                                profile.n,
                                seed,
                                Path(folder),
                                documents=method in profile.documented and seed == 0,
                            ),
                        )


def _attack_setting(setting: settings.Setting, about: Row, report: Report) -> None:
    report(row_order.POSITIONS, row_order.attack_positions(setting), about)
    for noise in NOISE:
        report(linkage.LINKAGE, linkage.attack(setting, noise), {**about, "noise": noise})
    if "report" in setting.files:
        report(documents.DOCUMENTS, documents.attack(setting), about)
    if setting.table == "weighted":
        report(weights.PUBLISHED, weights.attack_published(setting), about)


def _attack_method(profile: Profile, method: str, k: int, seed: int, report: Report) -> None:
    about = {"method": method, "k": k, "seed": seed}
    size = {"method": method, "k": k, "n": profile.n, "seed": seed}
    report(weights.WEIGHTS, weights.attack(**size), {"table": "weighted", **about})
    report(weights.PERSONS, weights.attack_persons(**size), about)
    report(missing.MISSING, missing.attack(**size), about)
    report(ranges.RANGES, ranges.attack(**size), {"table": "heavy-tailed", **about})
    report(digits.ALL_BUT_TWO, digits.attack_all_but_two(**size), about)
    report(digits.ALL_BUT_ONE, digits.attack_all_but_one(**size), about)
    report(minimality.MERGED, minimality.attack_merged(**size), about)
    table = profile.tables[seed % len(profile.tables)]
    one_left = differencing.attack_one_left(table, **size, leavers=profile.leavers)
    report(differencing.ONE_LEFT, one_left, {"table": table, **about})
    if k == 3:  # larger classes have too many assignments
        cells = partial(minimality.attack_cells, **size, classes=profile.classes)
        report(minimality.PLAIN, cells(), about)
        report(minimality.DEPENDENCE, cells(dependence=0.5), about)
        limits = {"column": "ill", "require": {"l_diversity": 2}}
        report(minimality.SEARCHED, cells(**limits), about)


def _attack_once(profile: Profile, report: Report) -> None:
    n, k = profile.n, profile.k[0]
    report(row_order.ORACLE, row_order.attack_oracle(profile.oracles), {})
    report(outliers.OUTLIERS, outliers.attack(profile.outliers, k, n), {"k": k})
    for seed in range(profile.seeds):
        for table in profile.tables:
            trials = differencing.attack_two_partitions(table, k, n, seed, ["mdav", "vmdav"])
            report(differencing.TWO_PARTITIONS, trials, {"table": table, "k": k, "seed": seed})
        for attack, trials_of in (
            (repeating.COLLECTIONS, repeating.attack_collections),
            (repeating.SESSIONS, repeating.attack_sessions),
        ):
            with TemporaryDirectory() as folder:
                several = trials_of(k, n, seed, profile.outliers, Path(folder))
            report(attack, several, {"k": k, "seed": seed})
        with TemporaryDirectory() as folder:
            files = buffers.attack_files("mdav", min(n, 60), seed, Path(folder))
        report(buffers.FILES, files, {"seed": seed})
        report(buffers.MEMORY, buffers.attack_frames("mdav", min(n, 60), seed), {"seed": seed})
