"""Two hosts that lose the network between them: every rank ends by its deadline and says whom it misses."""

import os
import subprocess

import namespaces
import pytest
from runs import PROGRAM
from watch import assert_missed_in_time, wait_for_step, wait_until

LIMIT_S = 10
SETTINGS = [f"guard.step_timeout_s={LIMIT_S}", "guard.start_timeout_s=120", "run.max_steps=100000",
            "run.num_epochs=100000", "data.validation="]
# A rank whose output and exit code can be read even when mpirun dies.
RANK = """#!/bin/sh
"$@" 2> {folder}/errors-$OMPI_COMM_WORLD_RANK
echo $? > {folder}/code-$OMPI_COMM_WORLD_RANK.tmp
mv {folder}/code-$OMPI_COMM_WORLD_RANK.tmp {folder}/code-$OMPI_COMM_WORLD_RANK
"""


@pytest.fixture
def hosts(tmp_path):
    made = namespaces.Namespaces(tmp_path, "east", "west")
    yield made
    made.close()


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def start(lab, hosts, name, also):
    folder = lab.folder / f"{name}-ends"
    folder.mkdir()
    agent = hosts.agent(folder / "agent", also)
    rank = script(folder / "rank", RANK.format(folder=folder))
    listed = ",".join(f"{address}:1" for address in hosts.addresses.values())
    words = hosts.on_first("mpirun", "--allow-run-as-root", "--bind-to", "none", "--mca", "plm_rsh_agent", agent,
                           "--host", listed, "-np", "2", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include",
                           namespaces.NETWORK, "--mca", "oob_tcp_if_include", namespaces.NETWORK, "-x",
                           "OMP_NUM_THREADS", rank, PROGRAM, "train", lab.config(name), *SETTINGS)
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, "OMP_NUM_THREADS": "1"})
    return process, folder


@pytest.mark.skipif(not namespaces.are_possible(), reason=namespaces.WHY_NOT)
@pytest.mark.parametrize("shared", [True, False], ids=["the run folder stays in sight", "nothing of the other is seen"])
def test_a_link_that_is_cut_ends_both_sides_by_the_deadline(lab, hosts, shared):
    name = f"cut-{shared}"
    run = lab.folder / "runs" / name
    signs = run / "progress"
    signs.mkdir(parents=True)
    process, folder = start(lab, hosts, name, "" if shared else f"mount -t tmpfs none {signs} &&")
    wait_for_step(run, 3)
    hosts.cut("east")
    codes = [folder / f"code-{rank}" for rank in (0, 1)]
    wait_until(lambda: all(path.exists() for path in codes), "both ranks' ends")
    process.kill()
    process.wait()
    assert [path.read_text().strip() for path in codes] == ["72", "72"]
    for rank in (0, 1):
        errors = (folder / f"errors-{rank}").read_text()
        assert f"rank {rank}: no progress for" in errors and "under way" in errors, errors
        assert_missed_in_time(errors, LIMIT_S)
        if shared:  # cut in the middle of an exchange, one of them has begun a collective more
            assert "is the network between their hosts cut? (east: rank 0) (west: rank 1)" in errors \
                or "runs, but has begun" in errors, errors
        else:
            assert f"missing: rank {1 - rank} has written no heartbeat" in errors, errors
