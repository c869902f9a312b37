"""The command line: ``gpleak`` and ``python -m gpleak``."""

import sys


def main() -> None:
    """Load the command and run it; the libraries take seconds to load, and Ctrl-C is one line even then."""
    try:
        from .reports.cli import main as run
    except KeyboardInterrupt:
        print("gpleak: interrupted: nothing was written", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
