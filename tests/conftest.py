"""Its place puts `reference`, the kernels' slow twins, on the path of every test."""

import os

# As on workers. Threads of small fits wait for each other, longer than they compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")
