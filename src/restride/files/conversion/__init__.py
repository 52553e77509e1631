"""Conversions. Reading order: tiles.py (boxes), sources.py (input), rules.py (rules), value_errors.py (error
bounds), steps.py (the work for one tensor), plan.py (all steps and the output files), tile_threads.py
(threads), time_estimate.py and report.py.
"""
