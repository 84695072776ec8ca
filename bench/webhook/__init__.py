"""The cost of the webhook, and the least cost of any webhook."""
