"""The tables and pictures of runs on GPUs: `runs.py` reads files, `block.py` merges runs, `blocks.py` lists what a page has."""
