"""Hash values of texts."""

import numpy as np

from distsvc.kernels.jit import kernel


@kernel
def hash_texts(data, offsets, hashes):
    """Write the 64-bit FNV-1a hash of each text (Fowler, Noll and Vo) into hashes (n,) uint64.

    data (m,) uint8 are the bytes of all texts; offsets (n + 1,) int64: the bytes of text i are
    those from offsets[i] to offsets[i + 1].
    """
    for i in range(hashes.size):
        found = np.uint64(0xCBF29CE484222325)
        for j in range(offsets[i], offsets[i + 1]):
            found = (found ^ np.uint64(data[j])) * np.uint64(0x100000001B3)
        hashes[i] = found
