"""Clusters for tests: a real scheduler on loopback, its workers threads of this process."""

from distributed import LocalCluster


def loopback_cluster(n_workers, protocol="tcp"):
    return LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=False,
        protocol=protocol,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
    )
