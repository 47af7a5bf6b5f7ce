"""Uses of published runs: load, predict, status, held candidates, backfills."""
