"""A throw-away Slurm on this machine, with fikit and emulated GPUs: `fikit sandbox`, the demo, the tests and the benches use it."""
