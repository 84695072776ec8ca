"""A fake GPU operator: a cluster without GPUs behaves like one with GPUs.

    topology (ConfigMap) + node labels and annotations
        -> one topology per node, the only input of all other programs
        -> labels, capacity and allocatable; device plugin; nvidia-smi; metrics

``catalog``, ``topology`` and ``node`` are pure; ``controller`` and the node's agent are shells
around them.
"""
