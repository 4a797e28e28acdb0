"""Sizes for tests about a job whose memory may lie on the host (host_memory_fixtures.py)."""

MIB = 2**20
GPU, ON_GPU, ON_HOST = 64, 48, 48  # MiB: the device, and what the job may have there and on the host
