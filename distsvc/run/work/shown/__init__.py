"""Progress as people and programs see it: bars, sentences, lines of JSON."""
