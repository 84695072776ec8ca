"""Storage objects as last seen, with what placements assume of them."""
