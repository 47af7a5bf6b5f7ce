"""Published runs: manifest, commit, candidates, retention."""
