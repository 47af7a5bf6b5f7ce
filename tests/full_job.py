"""A job that gives most keys, and a short way to make others."""

from distsvc.job.config import Job
from distsvc.job.file import parse_job

FULL = {
    "job": {"name": "shop", "run_date": "2026-02-28"},
    "input": {
        "path": "in.parquet",
        "columns": ["a", "b"],
        "exclude": ["c"],
        "id": "row_id",
        "classes": "label",
        "where": "split == 0",
    },
    "preprocess": {
        "scale": "robust",
        "missing": "median",
        "missing_values": [-9999.0],
        "log": ["a"],
        "encode": {"b": "onehot"},
    },
    "columns": {"d": {"kind": "ignore"}},
    "model": {
        "algorithm": "support-vector",
        "mode": "auto",
        "seed": 7,
        "gamma": 2.0,
        "nu": 0.2,
        "solver": "sgd",
        "budget": 50,
        "maintenance": "removal",
        "projection_size": 3,
        "stopping": "step-norm",
        "tol": 0.01,
        "theta": 0.1,
        "max_iter": 1000,
        "iterate": "average",
        "bridging": False,
        "labelling": "level-tree",
        "effort": "thorough",
        "granularity": "fine",
        "assignment": "nearest",
        "epsilon": 0.2,
        "segment_samples": 10,
        "boundary_size": 100,
    },
    "names": {"0": "regulars"},
    "continuity": {
        "previous": ["out/2026-02-27", "out/2026-02-26"],
        "min_overlap": 0.4,
        "memory": 3,
        "prefer_previous": False,
        "reference": "out/2026-01-01",
    },
    "checks": {
        "min_rows": {"level": "warn", "limit": 1000.0},
        "max_outlier_share": {"level": "error", "limit": 0.2},
        "clusters": {"level": "error", "limit": [2, 40]},
        "max_rows_moved": {"level": "warn", "limit": 0.3},
        "max_drift": {"level": "error", "limit": 0.25},
        "min_agreement": {"level": "error", "limit": 0.3},
        "unique_id": {"level": "warn", "limit": 0.0},
    },
    "cluster": {"workers": 2, "threads": 3, "partition_rows": 1000, "block_rows": 10},
    "output": {
        "path": "out",
        "format": "zarr",
        "reasons": 0,
        "membership": True,
        "top": 0,
        "missing": False,
    },
}


def job(**sections) -> Job:
    small = {"input": {"path": "in.parquet"}, "output": {"path": "out"}}
    return parse_job({k: small.get(k, {}) | v for k, v in (small | sections).items()})
