"""How work is done: phases, results, checkpoints, fan-out, progress."""
