"""``gpuctl whatif``: the simulator's decisions on the live state, as it is and after a change."""
