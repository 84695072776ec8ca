"""Runs Kubernetes' own end-to-end tests of scheduling, with kube-scheduler and with gpu-scheduler.

``build`` compiles ``k8s.io/kubernetes/test/e2e`` into the cache; ``run`` runs the [sig-scheduling]
specs on KWOK nodes; ``steering`` gives the pods of the tests to one scheduler; ``table`` compares
the results. docs/conformance.md has the list.
"""
