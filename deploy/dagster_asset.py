"""A Dagster asset with a partition for each day; try it with `dagster dev -f dagster_asset.py`."""

import subprocess

import dagster as dg

# With --overwrite a partition that is materialized again is replaced where the table or the night
# before is another now, and left else. Add "--skip-missing" to skip late days.
COMMAND = ["distsvc", "run", "/etc/distsvc/nightly.toml", "--overwrite"]
RETRY = 75, 143  # temporary failure, terminated: a new start goes on where this one ended
SKIP = 99

days = dg.DailyPartitionsDefinition(start_date="2026-11-01", timezone="UTC")


@dg.asset(partitions_def=days, output_required=False, pool="distsvc")
def nightly_clusters(context: dg.AssetExecutionContext):
    """Cluster the table of one day; a day that is skipped is not materialized."""
    with subprocess.Popen([*COMMAND, "--run-date", context.partition_key]) as process:
        try:
            code = process.wait()
        finally:
            process.terminate()  # where the run is stopped; nothing to do after the end
    if code == SKIP:
        context.log.warning("skipped: the input is not ready")
        return
    if code in RETRY:
        raise dg.RetryRequested(max_retries=5, seconds_to_wait=600)
    if code != 0:
        raise dg.Failure(f"exit code {code}, see the log; not tried again", allow_retries=False)
    yield dg.MaterializeResult()


nightly = dg.define_asset_job("nightly", [nightly_clusters], partitions_def=days)
schedule = dg.build_schedule_from_partitioned_job(nightly, hour_of_day=2, minute_of_hour=30)
defs = dg.Definitions(assets=[nightly_clusters], jobs=[nightly], schedules=[schedule])
