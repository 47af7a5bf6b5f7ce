"""What is done with published runs: load, predict, status, held candidates, backfills."""
