"""The algorithm "mixture": clusters are the components of a mixture of normals and categories."""
