"""The DCGM exporter of the cluster, and what its series say."""
