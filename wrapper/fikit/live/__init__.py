"""`fikit top` on a terminal. README.md says how it is divided."""
