"""Lists and watches, decoded into the model."""
