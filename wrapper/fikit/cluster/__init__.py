"""Every node and GPU of the cluster. README.md says what is where."""
