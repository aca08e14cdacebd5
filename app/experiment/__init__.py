"""The pipeline from an experiment's spec to its verdict: pure, frozen, no I/O; a stage imports earlier stages only.

spec → resolution → plan → records → fairness → metrics → conditions → parity → blocks → comparison → summary → results
"""
