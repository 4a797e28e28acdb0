"""The command line of fikit: run, report, profile, doctor, demo, sandbox."""
