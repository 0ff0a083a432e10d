"""Which method for which federation: every method with the same budget for tuning, on seeds that are not reported."""
