"""A real Prometheus beside a running product: scrape configuration, rules, and panels' queries."""
