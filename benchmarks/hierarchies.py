"""Information loss and truth of published hierarchies, beside ANJANA with the same hierarchies.

    python -m benchmarks.hierarchies adult.csv [--peer PYTHON] [--rows 10000]

``PYTHON`` is the interpreter of an environment that has ANJANA. Both outputs are measured by the
audit of microcell. ANJANA generalizes whole columns until k is met, leaving out at most the given
share of records.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

import microcell as mc

QUASI = ("age", "education", "occupation", "native_country")

_EDUCATION = {
    "school": {
        "primary": ["Preschool", "1st-4th", "5th-6th", "7th-8th"],
        "secondary": ["9th", "10th", "11th", "12th", "HS-grad"],
    },
    "after school": {
        "college": ["Some-college", "Assoc-voc", "Assoc-acdm"],
        "university": ["Bachelors", "Masters", "Prof-school", "Doctorate"],
    },
}
_OCCUPATION = {
    "office": ["Adm-clerical", "Exec-managerial", "Prof-specialty", "Sales", "Tech-support"],
    "manual": [
        *("Craft-repair", "Farming-fishing", "Handlers-cleaners", "Machine-op-inspct"),
        "Transport-moving",
    ],
    "service": ["Other-service", "Priv-house-serv", "Protective-serv", "Armed-Forces"],
    "not known": ["?"],
}
_COUNTRY = {
    "North America": ["United-States", "Canada", "Outlying-US(Guam-USVI-etc)"],
    "Latin America": [
        *("Mexico", "Puerto-Rico", "El-Salvador", "Cuba", "Jamaica", "Dominican-Republic"),
        *("Guatemala", "Haiti", "Nicaragua", "Honduras", "Trinadad&Tobago", "Columbia", "Ecuador"),
        "Peru",
    ],
    "Europe": [
        *("Germany", "England", "Italy", "Poland", "Portugal", "Greece", "France", "Ireland"),
        *("Yugoslavia", "Scotland", "Hungary", "Holand-Netherlands"),
    ],
    "Asia": [
        *("Philippines", "India", "China", "South", "Vietnam", "Japan", "Taiwan", "Iran"),
        *("Hong", "Thailand", "Cambodia", "Laos"),
    ],
    "not known": ["?"],
}


def hierarchy_rows() -> dict[str, Any]:
    """Return the paths of all values, equally long, by column."""
    bands = [
        [str(age), *(f"{age // w * w}-{age // w * w + w - 1}" for w in (5, 10, 20, 40)), "*"]
        for age in range(120)
    ]
    trees: dict[str, Any] = {
        "education": _EDUCATION,
        "occupation": _OCCUPATION,
        "native_country": _COUNTRY,
    }
    rows: dict[str, Any] = {"age": bands}
    for name, groups in trees.items():
        taxonomy = mc.Column(name, hierarchy=groups).hierarchy
        assert taxonomy is not None
        leaves = [str(row[0]) for row in getattr(taxonomy, "rows", ())]
        rows[name] = [list(taxonomy.path(leaf) or ()) for leaf in leaves]
    return rows


def measure(original: dict[str, Any], released: dict[str, Any]) -> dict[str, float]:
    """Audit a release whose rows have the key ``row``."""
    audit = mc.audit(original, released, _schema(), key="row")
    shares = audit.categories
    people = sum(item.people for item in shares)
    return {
        "information_loss": audit["information_loss"],
        "smallest_class": audit["k"],
        "classes": audit["classes"] if "classes" in audit.measures else len(audit.class_sizes),
        "left_out": audit["records_dropped"],
        "true": sum(item.kept + item.coarse for item in shares) / people,
        "exact": sum(item.kept for item in shares) / people,
    }


def _schema() -> mc.Schema:
    rows = hierarchy_rows()
    quasi = [mc.Column(name, kind="hierarchy", hierarchy=rows[name]) for name in QUASI]
    return mc.Schema(quasi=quasi, keep=["row"], rows_are_people=True)


def run_peer(python: str, original: dict[str, Any], k: int, share: float) -> dict[str, Any]:
    """Return the table that ANJANA publishes."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "job.json")
        table = {name: np.asarray(values).tolist() for name, values in original.items()}
        job = {"table": table, "rows": hierarchy_rows(), "k": k, "suppress": 100 * share}
        path.write_text(json.dumps(job), encoding="utf-8")
        subprocess.run([python, "-c", _PEER, str(path)], check=True)
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: np.array(values) if name == "row" else np.array(values, dtype=object)
        for name, values in result.items()
    }


_PEER = """
import json, sys
import numpy as np, pandas as pd
from anjana.anonymity import k_anonymity

job = json.load(open(sys.argv[1]))
frame = pd.DataFrame(job["table"])
quasi = [name for name in frame.columns if name != "row"]
levels = {name: {i: np.array(part) for i, part in enumerate(zip(*job["rows"][name]))}
          for name in quasi}
done = k_anonymity(frame, [], quasi, job["k"], job["suppress"], levels)
json.dump({name: done[name].tolist() for name in done.columns}, open(sys.argv[1], "w"))
"""


def main() -> None:
    """Run all cases and print one line of JSON for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("table", type=Path)
    parser.add_argument("--peer")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--effort", default="balanced")
    options = parser.parse_args()
    columns = mc.read(options.table).columns
    texts = {name: columns[name].factorize() for name in QUASI}
    original = {
        name: np.array([(*names, "?")[code] for code in codes[: options.rows]])
        for name, (codes, names) in texts.items()
    }
    original["row"] = np.arange(len(original["age"]))
    for k in (5, 10):
        for share in (0.0, 0.02):
            started = process_time()
            release = mc.anonymize(original, _schema(), k=k, suppress=share, effort=options.effort)
            ours = measure(original, release.table) | {"seconds": process_time() - started}
            _print("microcell", k, share, ours)
            if options.peer:
                _print(
                    "ANJANA",
                    k,
                    share,
                    measure(original, run_peer(options.peer, original, k, share)),
                )


def _print(name: str, k: int, share: float, figures: dict[str, float]) -> None:
    line = {"tool": name, "k": k, "suppress": share}
    sys.stdout.write(json.dumps(line | {key: round(v, 5) for key, v in figures.items()}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
