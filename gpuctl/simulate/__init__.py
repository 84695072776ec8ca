"""The simulator behind ``gpuctl simulate``: the scheduler's core on objects from files.

manifests ──> input ──> engine ──> result
(files)       (order)   (admission, queue, decisions in virtual time)
"""
