"""What the commands print: tables, diagrams, explanations, progress."""
