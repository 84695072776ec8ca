"""The read-only web dashboard: its pages as data, their events, and the routes that serve them."""
