"""The paper's tables and figures as declared experiments, run with one command and held against its numbers."""
