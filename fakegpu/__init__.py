"""A fake GPU operator: a cluster without GPUs behaves as one with them.

    topology (ConfigMap) + node labels and annotations
        -> one node topology for each node, which is all that other programs read
        -> labels, capacity and allocatable; device plugin; nvidia-smi; metrics

``catalog``, ``topology`` and ``node`` are pure; ``controller`` and the node's agent are shells
around them.
"""
