"""A host dies in the middle of a run: a spare takes its place, and nothing of the run is lost."""

import os
import subprocess

import namespaces
import pytest
from runs import PATIENCE_S, PROGRAM, REPO, assert_bit_equal, losses, slow_from
from watch import saved_steps, wait_until

RUN = REPO / "launch" / "packtrain-run"
# Saves are synchronous: during an asynchronous save the last steps may be done before the checkpoint is seen.
SETTINGS = ["run.max_steps=40", "run.num_epochs=4", "data.validation=", "checkpoint.save_steps=20",
            "checkpoint.asynchronous=false", "parallel.shard_size=2"]
# A silent host is noticed in 4 s instead of 25.
QUICK = ["--mca", "oob_tcp_keepalive_time", "2", "--mca", "oob_tcp_keepalive_intvl", "1", "--mca",
         "oob_tcp_keepalive_probes", "2"]


@pytest.fixture
def hosts(tmp_path):
    made = namespaces.Namespaces(tmp_path, "east", "west", "north")
    yield made
    made.close()


def start(lab, hosts, name, *flags):
    listed = ",".join(f"{address}:1" for address in hosts.addresses.values())
    words = hosts.on_first(RUN, "--hosts", listed, "--interface", namespaces.NETWORK, "--launch-agent",
                           hosts.agent(hosts.folder / "agent"), *QUICK, *flags, "--restarts", "3", "--program",
                           PROGRAM, lab.config(name), *SETTINGS, *slow_from(21, 20))
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=lab.folder,
                            env={**os.environ, "OMP_NUM_THREADS": "1"})


@pytest.mark.skipif(not namespaces.are_possible(), reason=namespaces.WHY_NOT)
def test_a_spare_takes_the_place_of_a_host_that_dies(lab, hosts):
    process = start(lab, hosts, "spare", "--spares", "1")
    run = lab.folder / "runs" / "spare"
    wait_until(lambda: saved_steps(run)[-1:] >= [20], "a checkpoint")
    hosts.kill("west")
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    west, north = hosts.addresses["west"], hosts.addresses["north"]
    assert "mpirun could not reach a host or lost it" in errors and "restart 1 of at most 3 (" in errors
    assert f"{west} alone: exit code 69" in errors and "No route to host" in errors
    assert f"{west} is broken: {north} takes its place" in errors
    undisturbed = lab.run("undisturbed", *SETTINGS, ranks=2, timeout=400)
    assert len(losses(run)) == 40
    assert_bit_equal(run, undisturbed)
