"""The jobs of this node. README.md says what is where."""
