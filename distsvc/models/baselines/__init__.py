"""The algorithms that the papers compare theirs with."""
