"""What learners are given: survey, sample, prepared rows."""
