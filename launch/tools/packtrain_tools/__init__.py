"""What the Python tools of packtrain share: sources, encoding, token stores, progress."""
