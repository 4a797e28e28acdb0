"""`python -m fikit` is `fikit`."""

from fikit.entry import fikit

if __name__ == "__main__":
    fikit()
