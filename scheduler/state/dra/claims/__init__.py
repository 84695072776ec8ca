"""What the store knows of claims beside their devices: users, writes in progress, versions."""
