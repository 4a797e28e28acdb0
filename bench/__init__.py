"""Every figure that the documentation quotes: `python -m bench NAME --json FILE`."""
