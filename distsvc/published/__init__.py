"""What users do with runs: start them from Python, load, predict, export, publish, roll back."""
