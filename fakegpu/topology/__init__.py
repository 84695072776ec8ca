"""What users write about GPUs (pools), and what is known of one node (its topology)."""
