"""For every test: fixtures of whole jobs, one thread for small fits, logs that can be read."""

import os

# As on workers. Threads of small fits wait for each other, longer than they compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Events of commands are read by tests.
os.environ["DISTSVC_LOG_FORMAT"] = "json"

pytest_plugins = ["tests.jobs.fixtures"]
