"""The command line: `restride`, also `python -m restride`. One file per command, `main.py` finds them."""
