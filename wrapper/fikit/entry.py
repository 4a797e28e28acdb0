"""Where `fikit` and `fikit-report` begin: nothing is imported before Ctrl-C is quiet, and that takes most of a short run."""

from fikitd.base import interrupt


def fikit() -> None:
    """Entry point of `fikit`."""
    interrupt.ends_at_once()
    from fikit.cli import main  # noqa: PLC0415

    main()


def report() -> None:
    """Entry point of `fikit-report`."""
    interrupt.ends_at_once()
    from fikit.commands.report import main  # noqa: PLC0415

    main()
