"""fikitd, the daemon that shares a node's GPUs between jobs by priority: control plane in Python, `_core` in C++."""

__version__ = "0.1.0"
