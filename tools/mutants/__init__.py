"""Guards that must not be lost: each one is taken out, and a test has to notice.

Not a general mutation tool: the list is kept by hand, one entry per promise that would break
silently. ``guards.yaml`` is the list; ``python -m tools.mutants`` runs it.
"""
