"""Extension points of the scheduling pipeline, named as in Kubernetes' scheduling framework.

A plugin (``plugin.Plugin``) is a record of pure functions; ``pipeline.Pipeline`` composes the
registered ones once, at start. The step-by-step guide is docs/plugins.md.
"""
