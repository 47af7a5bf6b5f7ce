"""The execution of a run: phases, results, checkpoints, fan-out, progress."""
