"""The program `fsdyno`. Ctrl-C is looked after before anything else is loaded."""

from __future__ import annotations

from fsdyno import interrupt


def main() -> None:
    """Runs the command line."""
    interrupt.install()
    from fsdyno import cli

    cli.main()


if __name__ == "__main__":
    main()
