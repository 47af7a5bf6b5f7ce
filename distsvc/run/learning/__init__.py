"""The input of learners: survey, sample, prepared rows."""
