"""Random sequences: equal kinds and seeds give equal sequences on every version of Python."""
