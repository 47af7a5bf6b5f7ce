"""Solvers and kernels by themselves, beside other implementations."""
