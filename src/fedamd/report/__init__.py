"""What people look at: curves, comparisons and the self-contained page of one or more runs."""
