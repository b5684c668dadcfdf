"""What `packtrain prepare` reads: files, tables, data sets, and the formats of their records."""
