"""Federations on this machine: in one process, or as real SuperLink and SuperNodes on 127.0.0.1."""
