"""The one fault that ends the process: the books of the cluster contradict themselves.

Every other exception belongs to one object, pod or candidate and is contained there. Books that are
wrong would give GPUs away twice, so they are thrown away: the next process reads them anew from
the API, which is all that they rest on.
"""

from __future__ import annotations


class InvariantViolation(Exception):
    """What the books say of themselves cannot be; ``str()`` says at which object that was seen."""
