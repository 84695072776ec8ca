"""The demo: scheduler and webhook on a real API server, with nodes simulated by KWOK.

    __main__ -> scenario -> environment    control plane, scheduler, webhook
                         -> observer       the API server's objects as rows
                         -> display        the live table, or lines
                         -> expectations   the expected lines, and the differences
                         -> advice         the last lines: what else one can do

It needs the repository (``tools/``, ``cluster/``), so the wheel does not contain it. It never uses
a cluster, a kubeconfig or a process that it did not start.
"""
