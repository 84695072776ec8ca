"""The metrics of the fake GPUs, by the names of NVIDIA's DCGM exporter."""
