"""The job: plan, fit, label, publish."""
