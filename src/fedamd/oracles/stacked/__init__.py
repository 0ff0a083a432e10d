"""A stack of N models, each at its own parameters and on its own batch, in one call: the GPU's oracle."""
