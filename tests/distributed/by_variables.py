#!/usr/bin/env python3
"""by_variables.py -np N COMMAND...: starts N processes as Kubernetes or a shell script does.

Only environment variables give them their ranks. No launcher ends the others when one ends. The exit code is the first
that is not 0, by rank. The codes are printed."""

import os
import socket
import subprocess
import sys


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(num_ranks, command, **more):
    """The processes, by rank."""
    shared = {"OMP_NUM_THREADS": "1", **os.environ, "WORLD_SIZE": str(num_ranks), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(free_port())}
    return [subprocess.Popen(command, env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}, **more)
            for rank in range(num_ranks)]


if __name__ == "__main__":
    codes = [process.wait() for process in start(int(sys.argv[2]), sys.argv[3:])]
    print("exit codes:", *codes, file=sys.stderr)
    sys.exit(next((code for code in codes if code), 0))
