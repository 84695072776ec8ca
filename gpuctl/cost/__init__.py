"""What the GPUs cost, and who holds them: now by the scheduler, over time by Prometheus."""
