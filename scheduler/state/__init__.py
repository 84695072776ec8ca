"""The state: nodes, pods and the queue as last seen; the loop is its only writer."""
