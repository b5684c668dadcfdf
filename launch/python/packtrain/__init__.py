"""The installed package: bin/packtrain, its libraries (lib), the Python tools (python) and example configurations."""
