"""What was found out with this package: the paper's experiments, and its theorems held against measurements."""
