"""Recorded jobs as real programs, beside what the simulator says of them."""
