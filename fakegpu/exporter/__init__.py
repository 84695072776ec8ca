"""The metrics of the fake GPUs, with the names of NVIDIA's DCGM exporter."""
