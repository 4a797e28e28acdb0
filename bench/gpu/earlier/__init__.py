"""The parts of the first runs on a GPU, by `--parts` only: costs, launch, timing, slices, mps, memory, conformance, plans, frameworks."""
