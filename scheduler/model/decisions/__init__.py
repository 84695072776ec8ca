"""Messages of the aggregated decisions API between webhook and scheduler."""
