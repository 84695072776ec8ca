"""Answers the webhook: what a pod under review gets."""
