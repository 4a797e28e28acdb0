"""Where `fikitd` begins, as `fikit` does: nothing is imported before Ctrl-C is quiet."""

from fikitd.base import interrupt


def fikitd() -> None:
    """Entry point of `fikitd`."""
    interrupt.ends_at_once()
    from fikitd.daemon.main import main  # noqa: PLC0415

    main()
