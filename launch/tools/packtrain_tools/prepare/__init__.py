"""A run of `packtrain prepare`: encoding, selection, and the stores that it writes."""
