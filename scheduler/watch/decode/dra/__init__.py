"""Objects of ``resource.k8s.io``, and the claims of pods, as they arrive."""
