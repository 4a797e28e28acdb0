"""What every room may use and what knows nothing of jobs. README.md says what is where."""
