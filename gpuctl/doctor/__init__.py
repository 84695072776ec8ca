"""``gpuctl doctor``: looks at a cluster before somebody has to ask why nothing works.

command ── ask ──> facts ── examine ──> findings ── command prints them
           (I/O)           (pure)
"""
