"""This node's GPUs and what shares one. README.md says what is where."""
