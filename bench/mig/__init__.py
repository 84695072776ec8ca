"""Policies for MIG requests, and the streams that compare them."""
