"""The batch script under a real Slurm: warned before its time limit the job saves, is requeued, and ends as one that
nothing stopped."""

import os
import pathlib
import subprocess
import sys

import pytest
import slurm_cluster

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests" / "distributed"))

from runs import PROGRAM, Lab, assert_bit_equal, losses  # noqa: E402  # the path is set above

SCRIPT = REPO / "launch" / "cluster" / "train.sbatch"
SETTINGS = ["run.max_steps=40", "run.num_epochs=4", "data.validation=", "parallel.shard_size=2"]
# Both nodes are this machine. Of the directives only the number of GPUs and nodes is another.
NODES = ["--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=0"]

pytestmark = pytest.mark.skipif(not slurm_cluster.is_installed(),
                                reason="there is no Slurm: launch/setup --lint installs it")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    os.environ["OMP_NUM_THREADS"] = "1"
    made = slurm_cluster.SlurmCluster(tmp_path_factory.mktemp("slurm"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return Lab(tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def undisturbed(lab):
    return lab.run("undisturbed", *SETTINGS, ranks=2, timeout=400)


def submit(cluster, lab, name, *flags, settings=()):
    log = lab.folder / f"{name}.log"
    number = cluster.submit(*NODES, f"--output={log}", *flags, SCRIPT, "--interface", "lo", "--program", PROGRAM,
                            lab.config(name), *SETTINGS, *settings, cwd=REPO)
    return number, log


def test_a_job_saves_before_its_time_limit_and_resumes_in_another(cluster, lab, undisturbed):
    # Every 30 s Slurm checks whether a job has 30 s more than asked for. It warns between second 75 and 105: by then
    # the job trains even on a busy machine. A step takes four seconds until the restart, so that the job is not done
    # before.
    number, log = submit(cluster, lab, "limited", "--time=3", "--signal=B:USR1@75",
                         settings=["fault.kind=slow", "fault.step=3", "fault.num_steps=1000", "fault.seconds=4"])
    job = cluster.wait(number, 800)
    text = log.read_text()
    assert (job["JobState"], job["ExitCode"]) == ("COMPLETED", "0:0") and int(job["Restarts"]) >= 1, text
    assert "stop requested, waiting for the ranks to save" in text and "saved, back into the queue" in text
    assert "resumed from" in text and text.count("OK      products") >= 2  # doctor's, before each start
    assert len(losses(lab.folder / "runs" / "limited")) == 40
    assert_bit_equal(lab.folder / "runs" / "limited", undisturbed)


def test_a_terminated_job_saves_and_is_not_requeued(cluster, lab):
    number, log = submit(cluster, lab, "told", settings=["fault.kind=slow", "fault.step=3", "fault.num_steps=1000",
                                                         "fault.seconds=1"])
    cluster.wait_for(lambda: log.exists() and "step 4/" in log.read_text(), 400, "a step")
    cluster.ask("scancel", "--batch", "--signal=INT", number)
    job = cluster.wait(number, 400)
    assert (job["JobState"], job["ExitCode"], job["Restarts"]) == ("FAILED", "75:0", "0"), log.read_text()
    assert "stopped on request" in log.read_text()


def test_a_configuration_error_is_the_jobs_exit_code(cluster, lab):
    number, log = submit(cluster, lab, "wrong", settings=["run.sed=1"])
    job = cluster.wait(number, 400)
    assert (job["JobState"], job["ExitCode"]) == ("FAILED", "64:0"), log.read_text()


@pytest.mark.parametrize("mpi", ["pmix", "none"])
def test_srun_starts_ranks_without_mpirun(cluster, lab, undisturbed, mpi):
    name = f"srun-{mpi}"
    done = subprocess.run(["srun", "--nodes=1", "--ntasks=2", f"--mpi={mpi}", PROGRAM, "train", lab.config(name),
                           *SETTINGS], env=cluster.environment, capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert_bit_equal(lab.folder / "runs" / name, undisturbed)
