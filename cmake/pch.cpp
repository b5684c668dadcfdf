// Something to compile the precompiled header with; it is included from the command line.
