"""Support vector clustering: the domain of novelty, its components, and the tree of level sets."""
