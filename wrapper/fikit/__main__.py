"""`python -m fikit` is `fikit`."""

from fikit.cli import main

if __name__ == "__main__":
    main()
