"""What earlier runs of a program taught. README.md says what is where."""
