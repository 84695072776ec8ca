"""Quotas: ResourceQuotas of Kubernetes, and the ConfigMap with the teams."""
