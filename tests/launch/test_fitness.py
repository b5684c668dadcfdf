"""Doctor before a start: whom its lines blame, and which spares step in."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "launch" / "python"))

from packtrain_launch.fitness import make_fit, read_blame  # the path is set above
from packtrain_launch.hosts import make_roster, parse_hosts

REPORT = """OK      versions     packtrain 0.1
                     libtorch.so: /a/libtorch.so
SLOW    products     700 TFLOP/s (median of 8, 300 to 710); slow: rank 3 on b, rank 2 on b
                     Look for other work on it.
OK      limits       rank 7 on x is what an OK line may say
BROKEN  versions     packtrain 0.1
                     libtorch.so: /a/libtorch.so; another program or other libraries: rank 4 on c
"""


class Doctor:
    """Finds `slow` and `broken` hosts whenever they are among those that it is run on. `dead` hosts cannot be
    reached: doctor then reports nothing about any host."""

    def __init__(self, slow=(), broken=(), dead=()):
        self.slow, self.broken, self.dead = slow, broken, dead
        self.looks = []

    def __call__(self, hosts, aloud):
        if hosts is None:
            return (76, "") if self.slow else (69 if self.broken else 0, "")
        names = [host.name for host in hosts for _ in range(host.num_ranks)]
        self.looks.append([host.name for host in hosts])
        if set(names) & set(self.dead):
            return 69, "ssh: no route"
        lines = []
        for verdict, bad in (("SLOW", self.slow), ("BROKEN", self.broken)):
            lines += [f"{verdict}  disk  x; bad: rank {rank} on {name}-internal" for rank, name in enumerate(names)
                      if name in bad]
        text = "\n".join(lines)
        return 69 if "BROKEN" in text else 76 if "SLOW" in text else 0, text


def fit(doctor, text, num_spares=0, min_hosts=None):
    """(exit code, the hosts to start on)"""
    roster = make_roster(parse_hosts(text), None, [], num_spares, min_hosts)
    return make_fit(roster, doctor), [host.name for host in roster.used]


def test_the_ranks_of_slow_and_broken_lines_are_blamed_and_of_no_other():
    assert read_blame(REPORT) == {"SLOW": {2, 3}, "BROKEN": {4}}


def test_sound_hosts_are_checked_once():
    doctor = Doctor()
    assert fit(doctor, "a:2,b:2,c:2", num_spares=1) == (0, ["a", "b"])
    assert doctor.looks == [["a", "b"]]


@pytest.mark.parametrize("kind", ["slow", "broken", "dead"])
def test_a_spare_takes_the_place_and_is_checked_with_the_others(kind):
    doctor = Doctor(**{kind: ["b"]})
    assert fit(doctor, "a:2,b:2,c:2", num_spares=1) == (0, ["a", "c"])
    assert doctor.looks[0] == ["a", "b"] and doctor.looks[-1] == ["a", "c"]


def test_a_spare_that_is_no_better_is_replaced_as_well():
    assert fit(Doctor(broken=["b", "c"], slow=["d"]), "a:1,b:1,c:1,d:1,e:1", num_spares=3) == (0, ["a", "e"])


def test_a_slow_host_is_kept_where_no_spare_is_left():
    assert fit(Doctor(slow=["a", "b"]), "a:2,b:2,c:2", num_spares=1) == (0, ["c", "b"])


@pytest.mark.parametrize("kind", ["broken", "dead"])
def test_broken_hosts_without_spares_keep_training_from_starting(kind, capfd):
    assert fit(Doctor(**{kind: ["b"]}), "a:2,b:2")[0] == 69
    errors = capfd.readouterr().err
    assert "b: broken, and 0 spares are there" in errors
    assert "doctor ended with exit code 69: training does not start" in errors


def test_with_a_minimum_the_remaining_hosts_continue():
    assert fit(Doctor(broken=["b"], dead=["c"]), "a:2,b:2,c:2,d:2", min_hosts=2) == (0, ["a", "d"])
    assert fit(Doctor(broken=["b"], dead=["c"]), "a:2,b:2,c:2,d:2", min_hosts=3)[0] == 69


def test_the_name_that_a_host_gives_itself_does_not_matter():
    # Doctor's lines name `b-internal`: the ranks identify the host.
    assert fit(Doctor(broken=["b"]), "a:3,b:1,c:3", num_spares=1) == (0, ["a", "c"])


def test_what_is_wrong_with_the_configuration_is_no_hosts_fault():
    looks = []
    roster = make_roster(parse_hosts("a:2,b:2"), None, [], 1, None)
    assert make_fit(roster, lambda hosts, aloud: (looks.append(hosts), (64, "rank 0 on a"))[1]) == 64
    assert len(looks) == 1


def test_on_one_machine_slow_starts_and_broken_does_not():
    assert make_fit(None, Doctor(slow=["x"])) == 0
    assert make_fit(None, Doctor(broken=["x"])) == 69
