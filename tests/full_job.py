"""A job that gives most keys, and a short way to make others."""

from distsvc.config import Job
from distsvc.job_file import parse_job

FULL = {
    "input": {
        "path": "in.parquet",
        "columns": ["a", "b"],
        "id": "row_id",
        "label": "label",
        "where": "split == 0",
    },
    "preprocess": {"scale": "minmax", "missing": "median"},
    "model": {
        "algorithm": "support-vector",
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
        "average": True,
        "bridging": False,
        "labelling": "level-tree",
        "effort": "thorough",
        "granularity": "fine",
        "assignment": "nearest",
        "epsilon": 0.2,
        "segment_samples": 10,
        "boundary_size": 100,
    },
    "cluster": {"workers": 2, "threads": 3, "partition_rows": 1000, "block_rows": 10},
    "output": {"path": "out", "format": "zarr", "reasons": 0},
}


def job(**sections) -> Job:
    small = {"input": {"path": "in.parquet"}, "output": {"path": "out"}}
    return parse_job({k: small.get(k, {}) | v for k, v in (small | sections).items()})
