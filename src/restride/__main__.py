"""`python -m restride` is the command `restride`; alone both print the help."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
