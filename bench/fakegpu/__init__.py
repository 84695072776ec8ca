"""The fake GPU operator with a thousand KWOK nodes."""
