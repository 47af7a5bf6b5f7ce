"""Workers: the cluster, how those on this machine start, tasks for them, and their losses."""
