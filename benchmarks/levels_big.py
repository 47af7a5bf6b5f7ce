"""gamma found without labels as a table grows: memory, and the test of splits against labelling.

Tables are those of the benchmark `big`: shuttle with small noise, 9 float32 columns and the label,
the small one with a quarter of the `--rows` rows of the large one. Jobs run as `distsvc run` with
two workers and our default parameters, in processes of their own. The phase "test" is the pass
over the table that tests the splits of all models; the phase "label" is the one that writes labels.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from benchmarks.big import (
    ROW_GROUPS,
    nmi,
    noisy_table,
    peaks,
    print_growth,
    report_phases,
    run_job,
)
from benchmarks.measure import Row, publish, show, work_folder


def run(options: Namespace) -> None:
    group = max(options.rows // ROW_GROUPS, 1)
    reports = {}
    with work_folder(options.work) as work:
        for name, n in (("small", options.rows // 4), ("large", options.rows)):
            table = noisy_table(work / "scale", options.data, "shuttle", n, group)
            print(f"clustering {table.name}", file=sys.stderr, flush=True)
            reports[name] = run_job(work, table, group, {"gamma": "auto"})
    report_phases(options.out, "levels_big_phases", reports)
    rows = [figures(name, report) for name, report in reports.items()]
    show("bars: test_over_label <= 1.5; memory flat within 10 %", rows)
    print_growth(*rows)
    publish(options.out, "levels_big", rows)


def figures(name: str, report: dict[str, Any]) -> Row:
    """Return a table's row of the result."""
    seconds = {phase["name"]: phase["seconds"] for phase in report["phases"]}
    return {
        "table": name,
        "rows": report["input"]["n_rows"],
        "seconds": sum(seconds.values()) - seconds["cluster"],
        "cold_start_s": seconds["cluster"],
        **{f"{phase}_s": seconds[phase] for phase in ("survey", "learn", "test", "label")},
        "test_over_label": seconds["test"] / seconds["label"],
        **peaks(report),
        "nmi": nmi(report),
        "clusters": len(report["clusters"]),
    }
