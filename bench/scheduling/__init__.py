"""Simulated: what policies, predictor and placement do with recorded jobs."""
