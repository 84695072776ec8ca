"""Answers admission queries of the webhook."""
