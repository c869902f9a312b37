"""``python -m gpleak``: the command line."""

from .reports.cli import main

main()
