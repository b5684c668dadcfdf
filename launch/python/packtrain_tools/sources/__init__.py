"""The inputs of `packtrain prepare`: files, tables, data sets, and the formats of their records."""
