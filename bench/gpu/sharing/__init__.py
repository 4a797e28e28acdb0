"""Pairs of programs beside each other: `pairs.py` has the steps, `cells.py` the ways of sharing, `windows.py` a cell's figures."""
