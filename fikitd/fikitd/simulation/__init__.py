"""What a policy would do to recorded jobs. README.md says what is where."""
