"""What is done with a user's rights. README.md says what is where."""
