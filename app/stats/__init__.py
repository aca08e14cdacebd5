"""Numbers in, numbers out: the statistics of paired measurements.

Nothing here knows what was measured. `docs/method.md` explains the choices and shows what they are worth in simulation.
"""
