"""The test service: a container that prints its node and its GPUs.

``kubectl logs`` shows whether a map was applied. Its lines are a contract, byte for byte. It must
run in any image with Python, so it imports the standard library only. It must never delay a node
drain: a signal ends it at once.
"""
