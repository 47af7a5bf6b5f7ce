"""Operations on runs: start from Python, load, predict, export, publish, roll back."""
