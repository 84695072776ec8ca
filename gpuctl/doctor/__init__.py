"""The checks of ``gpuctl doctor``: facts from the API server, and findings from the facts.

command ── collect ──> facts ── examine ──> findings ── the command prints them
            (I/O)            (pure)
"""
