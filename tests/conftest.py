"""Its place puts `reference`, the kernels' slow twins, on the path of every test."""
