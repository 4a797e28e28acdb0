"""Throw-away Slurms: what fikit costs jobs, prologs and slurmctld."""
