"""Where one pod goes, or why it cannot go anywhere."""
