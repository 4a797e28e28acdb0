"""Advice: what a job may expect on each GPU, and what its owner could type instead. README.md says how it is divided."""
