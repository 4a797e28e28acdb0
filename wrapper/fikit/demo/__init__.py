"""The demo of `fikit demo`: two jobs on one GPU, alone, with default sharing, with fikit.

plan.py says what runs, launchers.py how a job is started (Slurm or not), experiment.py runs it and measures, result.py is
what comes out.
"""
