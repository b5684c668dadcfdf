"""`packtrain tune`: what it chooses for a model and data."""
