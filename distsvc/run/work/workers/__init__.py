"""Workers: connecting to them or starting them, running tasks on them, detecting lost ones."""
