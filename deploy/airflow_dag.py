"""An Airflow DAG that clusters every day's table, for Airflow 3; put it into the DAG folder."""

import subprocess
from datetime import UTC, datetime, timedelta

from airflow.sdk import CronDataIntervalTimetable, dag, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

# With --overwrite a task that is cleared replaces its night where the table or the night before is
# another now, and leaves it else. Add "--skip-missing" to skip late days.
COMMAND = ["distsvc", "run", "/etc/distsvc/nightly.toml", "--overwrite"]
RETRY = 75, 143  # temporary failure, terminated: a new start goes on where this one ended
SKIP = 99


@dag(
    schedule=CronDataIntervalTimetable("30 2 * * *", timezone="UTC"),  # ds is the day before
    start_date=datetime(2026, 11, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
)
def distsvc_nightly():
    """Cluster the table of one day; a day that is skipped is shown as skipped."""

    # The job continues the night before, so nights run in order: one that failed or was held back
    # stops the later ones until it is cleared or marked as success. False lets them go on without.
    @task(
        depends_on_past=True,
        retries=5,
        retry_delay=timedelta(minutes=10),
        execution_timeout=timedelta(hours=12),
    )
    def cluster(ds: str) -> None:
        with subprocess.Popen([*COMMAND, "--run-date", ds]) as process:
            try:
                code = process.wait()
            finally:
                process.terminate()  # where the task is stopped; nothing to do after the end
        if code == SKIP:
            raise AirflowSkipException("the input is not ready")
        if code in RETRY:
            raise AirflowException(f"exit code {code}, tried again")
        if code != 0:
            raise AirflowFailException(f"exit code {code}, see the log; not tried again")

    cluster()


distsvc_nightly()
