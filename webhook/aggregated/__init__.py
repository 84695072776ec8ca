"""The optional API group decisions.gpu-scheduler.io, which the API server proxies here."""
