"""Requests that change objects in the API."""
