"""The page of the limits on input, written from their table."""
