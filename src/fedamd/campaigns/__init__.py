"""Several runs as one undertaking: sweeps over grids, and comparisons of methods."""
