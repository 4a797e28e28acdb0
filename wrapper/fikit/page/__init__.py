"""A job's report as one HTML file. README.md says how it is divided."""
