"""For every test: the fixtures of whole jobs, and one thread for small fits."""

import os

# As on workers. Threads of small fits wait for each other, longer than they compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")

pytest_plugins = ["tests.jobs.fixtures"]
