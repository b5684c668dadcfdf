"""Code shared by packtrain's Python tools: sources, encoding, token stores, progress."""
