"""What the comparison needs for ResourceClaims: their objects, and a check of our allocations."""
