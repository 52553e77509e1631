"""A conversion, read in this order: tiles.py (boxes), sources.py (what is read), rules.py (what is wanted),
value_errors.py (how far values may be off), steps.py (what is done for a tensor), plan.py (all steps
and the files of the result), tile_threads.py (who does the tiles), time_estimate.py and report.py.
"""
