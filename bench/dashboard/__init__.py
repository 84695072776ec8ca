"""Measures the web dashboard."""
