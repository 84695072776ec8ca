"""The one fault that ends the process: the cluster state contradicts itself.

Every other exception concerns one object, pod or candidate and is contained there. A wrong state
would allocate GPUs twice, so it is discarded: the next process rebuilds it from the API, its only
source.
"""

from __future__ import annotations


class InvariantViolation(Exception):
    """The state is contradictory; ``str()`` names the object where this was found."""
