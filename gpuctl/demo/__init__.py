"""The product at work on a real API server, with nodes that KWOK plays.

    command -> story -> stage    what runs: control plane, scheduler, webhook
                     -> seen     what the API server says, as lines
                     -> screen   how it is shown
               lines             what is expected, and what differs

It needs the repository (``tools/``, ``cluster/``), so an installed package does not have it. It
never touches a cluster, a kubeconfig or a process that it did not start.
"""
