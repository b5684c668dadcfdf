"""Two hosts that have nothing but a network between them train as one does, and one of them may die."""

import namespaces
import numpy
import pytest
from runs import assert_bit_equal, losses, slow_from, steps
from two_hosts import train
from watch import assert_missed_in_time, saved_steps, wait_for_step

pytestmark = pytest.mark.skipif(not namespaces.are_possible(), reason=namespaces.WHY_NOT)
SETTINGS = ["run.max_steps=8", "data.validation=", "checkpoint.save_steps=2", "checkpoint.keep=10",
            "checkpoint.asynchronous=false"]
FULL, HYBRID = ["parallel.shard_size=4"], ["parallel.shard_size=2"]
LIMIT_S = 4
KILLED = [f"guard.step_timeout_s={LIMIT_S}", *slow_from(4, 100, 0.5)]
OTHER = {"east": "west", "west": "east"}
RANKS = {"east": [0, 1], "west": [2, 3]}


@pytest.fixture(scope="module")
def full(lab):
    return lab.run("one-host", *SETTINGS, *FULL, ranks=4)


@pytest.fixture(scope="module")
def hybrid(lab):
    return lab.run("one-host-hybrid", *SETTINGS, *HYBRID, ranks=4)


def run(lab, hosts, name, launcher, *overrides, **options):
    train(lab, hosts, name, launcher, *SETTINGS, *overrides, **options).finish()
    return lab.folder / "runs" / name


@pytest.mark.parametrize("launcher", ["mpirun", "torchrun"])
def test_a_model_sharded_over_both_hosts_gives_the_bits_of_one_host(lab, hosts, full, launcher):
    assert_bit_equal(run(lab, hosts, f"full-{launcher}", launcher, *FULL), full)


@pytest.mark.parametrize("launcher", ["mpirun", "variables"])
def test_each_host_becomes_a_shard_group_by_itself(lab, hosts, hybrid, launcher):
    found = run(lab, hosts, f"hybrid-{launcher}", launcher)  # parallel.shard_size: auto
    assert "2 of 4 ranks share one copy" in (found / "log" / "rank-0.log").read_text()
    assert_bit_equal(found, hybrid)


def test_ranks_dealt_out_by_turns_reach_each_other_over_the_right_card(lab, hosts, full):
    """Where both hosts have a card of Docker's with the same address, and rank 0's host calls itself 127.0.1.1."""
    assert_bit_equal(run(lab, hosts, "by-turns", "by turns"), full)


def test_machines_of_one_name_are_two_hosts(lab, tmp_path, hybrid):
    twins = namespaces.Namespaces(tmp_path, "east", "west", one_name="clone")
    try:
        found = run(lab, twins, "twins", "variables")
    finally:
        twins.close()
    assert "2 of 4 ranks share one copy" in (found / "log" / "rank-0.log").read_text()
    assert_bit_equal(found, hybrid)


@pytest.mark.parametrize(("launcher", "killed", "ranks_left"), [("mpirun", "west", 4), ("torchrun", "east", 2)])
def test_the_remaining_host_ends_in_time_and_resumes_alone(lab, hosts, full, launcher, killed, ranks_left):
    name = f"killed-{killed}"
    folder = lab.folder / "runs" / name
    job = train(lab, hosts, name, launcher, *SETTINGS, *FULL, *KILLED)
    wait_for_step(folder, 5)
    hosts.kill(killed, silent=True)
    left = OTHER[killed]
    codes, errors = job.wait_for(RANKS[left])
    job.end()
    assert codes == [72, 72], errors
    for rank, said in zip(RANKS[left], errors, strict=True):
        assert f"rank {rank}: no progress for" in said and "missing: " in said, said
        assert all(f"rank {dead} has not run for" in said for dead in RANKS[killed]), said
        assert_missed_in_time(said, LIMIT_S)
    assert saved_steps(folder) == [2, 4]
    shards = f"parallel.shard_size={ranks_left}"
    run(lab, hosts, name, launcher, shards, on=[left], ranks_per_host=ranks_left)
    assert len(steps(folder)) == 8
    if ranks_left == 4:
        assert_bit_equal(folder, full)
    else:  # on fewer ranks sums are taken in another order
        numpy.testing.assert_allclose(losses(folder), losses(full), rtol=2e-5)
