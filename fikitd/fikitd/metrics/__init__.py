"""Figures of this node for Prometheus. README.md says what is where."""
