"""The command line: `restride`, also `python -m restride`. One file per command, run by `main.py`."""
