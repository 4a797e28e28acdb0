"""One file per command; each defines a click command called `command`."""
