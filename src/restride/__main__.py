"""Run the command line with `python -m restride`, as `restride` does; without arguments, print the help."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
