"""`python -m restride` is the command `restride`; alone it is `restride check`."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["check"]))
