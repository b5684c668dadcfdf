"""The hosts of a job: lists, hostfiles, Slurm allocations, spares."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "launch" / "python"))

from packtrain_launch.hosts import (Host, make_roster, parse_hosts, read_hostfile,
                                    read_slurm)
from packtrain_tools.errors import CONFIG, ToolError  # the path is set above


def roster_of(text, ranks_per_node=None, excluded=(), num_spares=0, min_hosts=None):
    return make_roster(parse_hosts(text), ranks_per_node, list(excluded), num_spares, min_hosts)


def hostfile(tmp_path, text):
    path = tmp_path / "hosts"
    path.write_text(text)
    return [(entry.name, entry.num_ranks) for entry in read_hostfile(str(path))]


def error_of(call, *arguments, **options):
    with pytest.raises(ToolError) as caught:
        call(*arguments, **options)
    assert caught.value.exit_code == CONFIG
    return str(caught.value)


def test_hosts_keep_their_order_and_ranks():
    roster = roster_of("b:4,a:2")
    assert roster.used == [Host("b", 4), Host("a", 2)] and roster.num_ranks == 6
    assert [roster.host_of(rank).name for rank in (0, 3, 4, 5)] == ["b", "b", "a", "a"]
    assert roster.host_of(6) is None


def test_ranks_per_node_goes_before_what_the_list_says():
    assert roster_of("a,b:2", ranks_per_node=8).used == [Host("a", 8), Host("b", 8)]


def test_a_hostfile_may_be_open_mpis_or_a_plain_list(tmp_path):
    text = "# racks 1 and 2\nnode1 slots=4 max_slots=8\n\nnode2:2  # a comment\nops@node3 slots=4\nnode4\n"
    assert hostfile(tmp_path, text) == [("node1", 4), ("node2", 2), ("ops@node3", 4), ("node4", None)]


def test_a_batch_systems_list_has_a_line_a_rank(tmp_path):
    assert hostfile(tmp_path, "n1\nn1\nn2\nn1\nn2\n") == [("n1", 3), ("n2", 2)]


@pytest.mark.parametrize("text, where, complaint", [
    ("n1 slots=0\n", "hosts:1", "`0` is no number of slots"),
    ("n1:4\nn2 slots=x\n", "hosts:2", "`x` is no number of slots"),
    ("n1 cores=4\n", "hosts:1", "`cores=4` is not known here"),
    ("n1 4\n", "hosts:1", "`4` is not known here"),
    ("n1:4 slots=4\n", "hosts:1", "the ranks of n1 twice"),
    ("n1:4\n\nn1\n", "hosts:3", "n1 is listed twice"),
    ("!n1\n", "hosts:1", "`!n1` is no host"),
    ("# none\n\n", "hosts", "lists no hosts")])
def test_a_bad_hostfile_is_named_with_its_line(tmp_path, text, where, complaint):
    message = error_of(hostfile, tmp_path, text)
    assert f"{where}: " in message and complaint in message


def test_a_hostfile_that_cannot_be_read_is_named(tmp_path):
    assert "nowhere: No such file" in error_of(read_hostfile, str(tmp_path / "nowhere"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "binary: is no text" in error_of(read_hostfile, str(tmp_path / "binary"))


@pytest.mark.parametrize("text, complaint", [
    ("a:4,,b:4", "`` is no host"), ("a:4,a:2", "a is listed twice"), ("a:x", "`x` is no number of ranks"),
    ("a b", "`a b` is no host"), ("-x", "`-x` is no host"), ("a:", "`` is no number of ranks")])
def test_a_bad_list_is_refused(text, complaint):
    assert complaint in error_of(parse_hosts, text)


def test_a_host_without_ranks_is_named():
    assert "does not say how many ranks b runs" in error_of(roster_of, "a:2,b")


def test_the_last_hosts_are_spares_and_excluded_ones_are_neither():
    roster = roster_of("a:2,b:2,c:2,d:2,e:2", excluded=["b", "d"], num_spares=1)
    assert [host.name for host in roster.used] == ["a", "c"] and roster.spares == ["e"]
    assert roster.min_hosts == 2


@pytest.mark.parametrize("options, complaint", [
    ({"excluded": ["d"]}, "--exclude: d is none of the hosts: a, b, c"),
    ({"excluded": ["a", "b", "c"]}, "leave none to run on"),
    ({"num_spares": 3}, "--spares: 3 hosts, of which 3 are spares, leave none"),
    ({"min_hosts": 3, "num_spares": 1}, "--min-hosts: 3 hosts are wanted and 2 are there")])
def test_too_few_or_unknown_hosts_are_refused(options, complaint):
    assert complaint in error_of(roster_of, "a:2,b:2,c:2", **options)


def test_a_spare_must_have_slots_for_any_hosts_ranks():
    assert "c runs 2 ranks and cannot replace b, which runs 4" in error_of(roster_of, "a:2,b:4,c:2", num_spares=1)


def test_a_spare_takes_the_place_and_the_ranks_of_a_host():
    roster = roster_of("a:2,b:2,c:4", num_spares=1)
    assert roster.replace(Host("a", 2)) == "c"
    assert roster.used == [Host("c", 2), Host("b", 2)] and roster.spares == []
    assert roster.replace(Host("c", 2)) is None
    assert roster.used == [Host("b", 2)]


def test_the_hosts_of_a_slurm_allocation_are_found(tmp_path, monkeypatch):
    scontrol = tmp_path / "scontrol"
    scontrol.write_text('#!/bin/sh\n[ "$*" = "show hostnames n[1-3]" ] && printf "n1\\nn2\\nn3\\n"\n')
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    environment = {"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_TASKS_PER_NODE": "4(x2),3"}
    assert [(entry.name, entry.num_ranks) for entry in read_slurm(environment)] == [("n1", 4), ("n2", 4), ("n3", 3)]
    assert read_slurm({}) == []
    assert "scontrol cannot read x" in error_of(read_slurm, {"SLURM_JOB_NODELIST": "x"})
