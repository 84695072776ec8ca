"""The test service: a container that prints which node it is on and which GPUs it was given.

It exists so that a person can read in ``kubectl logs`` whether a map was honoured. Its lines are
a contract, byte for byte. It must run in any image with Python, so it imports the standard
library only, and it must never keep a node waiting: a signal ends it at once.
"""
