"""A run of `packtrain prepare`: encoding, selection, and writing stores."""
