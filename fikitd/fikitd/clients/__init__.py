"""The programs that are connected. README.md says what is where."""
