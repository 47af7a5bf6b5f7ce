"""Linear one-class SVM and SVDD."""
