"""Tests the mpirun line that packtrain-run makes of each case, and how it handles mpirun's own exit codes."""

import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
RUN = REPO / "launch" / "packtrain-run"
sys.path.insert(0, str(REPO / "launch" / "python"))

from packtrain_launch import job, stop  # noqa: E402  # the path is set above


def run(*words, cwd=None, **environment):
    done = subprocess.run([RUN, *words], capture_output=True, text=True, timeout=100, cwd=cwd, check=False,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


def line_of(*words, **environment):
    code, out, err = run(*words, "--program", "/bin/true", "--dry-run", "c.yaml", "run.seed=1", **environment)
    assert code == 0, err
    return shlex.split(out)


def values_of(line, flag):
    return [line[index + 1] for index, word in enumerate(line) if word == flag]


def mca_of(line):
    return {line[i + 1]: line[i + 2] for i, word in enumerate(line) if word == "--mca"}


def test_one_machine_needs_no_network():
    line = line_of("-n", "2")
    assert line[0] == "mpirun" and values_of(line, "-np") == ["2"] and "--host" not in line
    assert mca_of(line) == {"pml": "ob1", "btl": "self,vader", "btl_vader_single_copy_mechanism": "none"}
    assert values_of(line, "--bind-to") == ["none"]
    assert line[-5:] == ["--ignore-signal=USR1", "/bin/true", "train", "c.yaml", "run.seed=1"]
    assert ("--allow-run-as-root" in line) == (os.geteuid() == 0)


def test_more_ranks_than_cores_are_oversubscribed_on_this_machine_alone():
    assert "--oversubscribe" in line_of("-n", "5000")
    assert "--oversubscribe" not in line_of("-n", "1")


def test_hosts_get_their_ranks_in_order_and_a_network():
    line = line_of("--hosts", "b:4,a:2,c:4", "--spares", "1")
    assert values_of(line, "--host") == ["b:4,a:2"] and values_of(line, "-np") == ["6"]
    assert values_of(line, "--map-by") == ["slot"]
    assert mca_of(line)["btl"] == "self,vader,tcp" and int(mca_of(line)["oob_tcp_keepalive_time"]) <= 10


def test_a_hostfile_does_as_a_list_does(tmp_path):
    (tmp_path / "hosts").write_text("b slots=4\na slots=4\n")
    line = line_of("--hostfile", str(tmp_path / "hosts"), "--exclude", "b", "--ranks-per-node", "8")
    assert values_of(line, "--host") == ["a:8"]


def test_an_interface_is_passed_to_open_mpi_and_nccl():
    line = line_of("--hosts", "a:1,b:1", "--interface", "eth7")
    assert mca_of(line)["btl_tcp_if_include"] == mca_of(line)["oob_tcp_if_include"] == "eth7"
    assert "NCCL_SOCKET_IFNAME" in values_of(line, "-x")
    # NCCL knows no address ranges.
    assert "NCCL_SOCKET_IFNAME" not in values_of(line_of("--hosts", "a:1", "--interface", "10.0.0.0/8"), "-x")


def test_variables_are_forwarded_ours_and_the_users():
    line = line_of("--hosts", "a:1", "-x", "MINE", "-x", "OTHER=two words", MINE="1", NCCL_DEBUG="WARN",
                   PACKTRAIN_TAG="x", LD_LIBRARY_PATH="/lib", NOT_THIS="1")
    assert {"MINE", "OTHER", "NCCL_DEBUG", "PACKTRAIN_TAG", "LD_LIBRARY_PATH", "OMP_NUM_THREADS"} <= set(
        values_of(line, "-x"))
    assert "NOT_THIS" not in values_of(line, "-x")


def test_a_setting_of_open_mpi_goes_before_our_own():
    mca = mca_of(line_of("--hosts", "a:1", "--mca", "pml", "ucx", "--mca", "x", "y"))
    assert mca["pml"] == "ucx" and mca["x"] == "y"


def test_binding_to_cores_gives_a_rank_as_many_as_it_has_threads():
    line = line_of("-n", "1", "--bind-to", "core", OMP_NUM_THREADS="3")
    assert values_of(line, "--map-by") == ["slot:PE=3"] and values_of(line, "--bind-to") == ["core"]


def test_another_launch_agent_takes_the_place_of_ssh():
    assert mca_of(line_of("--hosts", "a:1", "--launch-agent", "/bin/rsh"))["plm_rsh_agent"] == "/bin/rsh"


def test_a_bundle_finds_its_own_program_and_libraries(tmp_path):
    shutil.copy(RUN, tmp_path)
    (tmp_path / "python").symlink_to(REPO / "launch" / "python")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "packtrain").symlink_to("/bin/true")
    (tmp_path / "env").write_text("export LD_LIBRARY_PATH=/torch/lib PACKTRAIN_PYTHON=/a/python\n")
    done = subprocess.run([tmp_path / "packtrain-run", "-n", "1", "--dry-run", "c.yaml"], capture_output=True, text=True,
                          check=True)
    line = shlex.split(done.stdout)
    assert line[-3] == str(tmp_path / "bin" / "packtrain")
    assert {"LD_LIBRARY_PATH", "PACKTRAIN_PYTHON"} <= set(values_of(line, "-x"))
    (tmp_path / "env").write_text("exit 69\n")
    code = subprocess.run([tmp_path / "packtrain-run", "-n", "1", "c.yaml"], capture_output=True, check=False).returncode
    assert code == 69


def test_a_missing_mpirun_is_an_error_that_names_what_needs_none(tmp_path):
    done = subprocess.run([sys.executable, RUN, "-n", "1", "--program", "/bin/true", "c.yaml"], capture_output=True,
                          text=True, check=False, env={"PATH": str(tmp_path)})
    assert done.returncode == 69
    assert f"there is no mpirun on PATH={tmp_path}" in done.stderr and "One process needs none" in done.stderr


@pytest.mark.parametrize("words, complaint", [
    (["-n", "2", "--hosts", "a:2"], "give one of -n"),
    (["--ranks-per-node", "2"], "how many ranks"),
    (["-n", "2", "--spares", "1"], "go with hosts"),
    (["-n", "2", "-x", "NOT_SET_ANYWHERE"], "-x NOT_SET_ANYWHERE: there is no such environment variable"),
    (["--hosts", "a:2", "--exclude", "b"], "b is none of the hosts"),
    (["-n", "1", "--bind-to", "planet"], "invalid choice")])
def test_what_does_not_fit_together_is_a_configuration_error(words, complaint):
    code, _, errors = run(*words, "--program", "/bin/true", "c.yaml")
    assert code == 64 and complaint in errors


@pytest.fixture
def fake_mpirun(tmp_path):
    """A PATH with an mpirun that notes its arguments and ends with $FAKE_STATUS; without --quiet it says why."""
    script = tmp_path / "mpirun"
    script.write_text('#!/bin/sh\ncase "$*" in *--quiet*) echo "$*" >> "$FAKE_LOG" ;; *) echo "no room in /dev/shm" >&2 ;; '
                      'esac\nexit "$FAKE_STATUS"\n')
    script.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FAKE_LOG": str(tmp_path / "log")}


@pytest.mark.parametrize("status", [1, 9, 205])
def test_an_mpirun_that_loses_a_host_is_started_again(fake_mpirun, tmp_path, status):
    code, _, errors = run("--hosts", "a:1,b:1", "--restarts", "1", "--program", "/bin/true", "c.yaml", cwd=tmp_path,
                          FAKE_STATUS=str(status), **fake_mpirun)
    assert code == 69
    assert f"mpirun could not reach a host or lost it (its exit code {status};" in errors
    assert len((tmp_path / "log").read_text().splitlines()) == 2


def test_nothing_stays_in_the_folder_that_all_hosts_share(fake_mpirun, tmp_path):
    assert run("--hosts", "a:1,b:1", "--program", "/bin/true", "c.yaml", cwd=tmp_path, FAKE_STATUS="0",
               **fake_mpirun)[0] == 0
    assert {path.name for path in tmp_path.iterdir()} == {"mpirun", "log"}


def test_on_one_machine_mpiruns_code_is_handed_on(fake_mpirun):
    assert run("-n", "1", "--program", "/bin/true", "c.yaml", FAKE_STATUS="1", **fake_mpirun)[0] == 1


def test_messages_of_mpi_are_shown_where_it_starts_no_rank(fake_mpirun):
    _, _, errors = run("-n", "1", "--program", "/bin/true", "c.yaml", FAKE_STATUS="1", **fake_mpirun)
    assert "mpirun started no rank (exit code 1)" in errors and "  no room in /dev/shm" in errors


def test_messages_of_mpi_are_hidden_where_a_rank_ended_by_itself(fake_mpirun):
    _, _, errors = run("-n", "1", "--program", "/bin/true", "c.yaml", FAKE_STATUS="66", **fake_mpirun)
    assert errors == ""


def test_an_mpirun_that_waits_for_a_host_that_is_gone_is_ended(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(job, "_LOOK_S", 0.2)
    monkeypatch.setattr(job, "_STUCK_S", 1.0)
    waits = tmp_path / "waits"  # outlives its rank, which the test ends, by far
    waits.write_text("#!/bin/sh\nOMPI_COMM_WORLD_RANK=0 sleep 1000\nexec sleep 1000\n")
    waits.chmod(0o755)
    watched = job.Job([str(waits)], dict(os.environ), stop.StopRequests(), saves=True, over_hosts=True)
    ended = []

    def end_rank():
        while not watched._watch._ranks:  # the watch knows it
            time.sleep(0.05)
        ended.append(time.monotonic())
        os.kill(watched._watch._ranks[0], signal.SIGKILL)

    threading.Thread(target=end_rank, daemon=True).start()
    assert watched.wait() == 72
    assert time.monotonic() - ended[0] > 1.0
    assert "a host is gone" in capfd.readouterr().err
