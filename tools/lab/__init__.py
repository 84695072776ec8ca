"""The GPU scheduling lab, part by part, on a real API server with simulated GPUs.

Each part applies its manifests as a user does, waits for what it promises, and prints one line. At
the end ``gpuctl verify`` runs on the same cluster, and ``gpuctl report`` writes what was measured.
"""
