"""Module that workers on this machine import first. It loads all tasks, and initialises numba."""

import logging

import numpy as np

from distsvc.run.work.workers.lean import lean

lean()
logging.getLogger("distsvc").setLevel(logging.INFO)  # the driver displays the events

import distsvc.run.labelling.phase  # noqa: E402
import distsvc.run.learning.survey  # noqa: F401, E402
from distsvc.models.rows.scaling import ColumnSums  # noqa: E402

ColumnSums.empty(np.zeros(1)).add(np.zeros((1, 1)))  # numba initialises with its first kernel
