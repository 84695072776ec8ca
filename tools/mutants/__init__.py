"""Guards: checks in the code whose removal must fail a test.

This is no general mutation tool: the list is maintained by hand, one entry per check that could be
lost silently. ``guards.yaml`` is the list; ``python -m tools.mutants`` runs it.
"""
