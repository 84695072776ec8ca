"""Lock-step differential test: our decisions beside those of the real kube-scheduler.

A sequence (``sequence``) is run on a real API server with kube-scheduler (``live``), which asks
our side as its only extender; its answers are recorded (``recordings``) and replayed by our side
alone (``replay``). docs/conformance.md explains how to run it.
"""
