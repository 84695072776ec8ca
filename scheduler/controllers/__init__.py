"""Handlers of events, one table; leadership, migrations, MIG."""
