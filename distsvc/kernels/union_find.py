"""The components of a growing graph: a forest in which every vertex points towards its root."""

from distsvc.kernels.jit import inlined


@inlined
def root_of(parent, i):
    """Return the root of vertex i; the path to it is halved. parent (n,) int64 or int32."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i
