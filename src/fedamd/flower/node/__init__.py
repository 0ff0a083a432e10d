"""A client that stays: in the place of Flower's SuperNode, which starts a Python process for every message.

node.py (the process that is connected: no torch) · link.py (Flower's own connection, and who this node is) · pace.py
(when to look for messages) · workers.py (the workers as the node sees them) · forkserver.py (a warm process that forks
them) · worker.py (one run's app, loaded once) · frames.py (how the two talk) · private_flwr.py (everything here that is
not in Flower's public interface) · version.py (the one version of Flower it is made for)
"""
