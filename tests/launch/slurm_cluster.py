"""A Slurm cluster of its own in a folder of this machine: munged, slurmctld, and a slurmd a node."""

import os
import pathlib
import shutil
import socket
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")

# cred_expire: a job that is requeued waits for as long before it starts again (by default two minutes).
_CONFIG = """
ClusterName=packtrain
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmUser={user}
SlurmdUser={user}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
SwitchType=switch/none
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""
_NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2"


def is_installed():
    return all(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in PROGRAMS)


def _reserve_ports(number):
    """Returns sockets that hold free ports. No other process is given these. A daemon that reuses addresses, as
    Slurm's do, can listen there."""
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        each.bind(("", 0))
    return sockets


class SlurmCluster:
    def __init__(self, folder, num_nodes=2):
        self.folder = pathlib.Path(folder)
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"),
                            "PATH": f"{os.environ['PATH']}:/usr/sbin"}
        self.nodes = [f"node{number}" for number in range(num_nodes)]
        self._daemons = []
        self._sockets = _reserve_ports(num_nodes + 1)
        self._write_config()
        self._start_munge()
        self._start("slurmctld", "-D", "-i")
        for node in self.nodes:
            self._start("slurmd", "-D", "-N", node)
        self.wait_for(lambda: self.ask("sinfo", "--noheader", "--format=%T").split() == ["idle"], 200, "idle nodes")

    def _write_config(self):
        host = socket.gethostname().split(".")[0]
        ports = [each.getsockname()[1] for each in self._sockets]
        nodes = [_NODE.format(name=name, host=host, port=port) for name, port in zip(self.nodes, ports[1:])]
        user = subprocess.run(["id", "--user", "--name"], capture_output=True, text=True, check=True).stdout.strip()
        (self.folder / "state").mkdir()
        (self.folder / "slurm.conf").write_text(_CONFIG.format(host=host, ports=ports, folder=self.folder, user=user,
                                                               nodes="\n".join(nodes)))

    def _start_munge(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self._start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
                    f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munged.seed")
        self.wait_for((self.folder / "munge.socket").exists, 100, "munged")

    def _start(self, *words):
        with open(self.folder / f"{words[0]}.out", "ab") as log:
            self._daemons.append(subprocess.Popen(words, env=self.environment, stdout=log, stderr=subprocess.STDOUT))

    def wait_for(self, condition, limit_s, what):
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                logs = [path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log")]
                self.close()
                raise AssertionError(f"waited {limit_s} s in vain for {what}\n" + "\n".join(logs))
            time.sleep(0.2)

    def ask(self, *words, cwd=None):
        """Returns the output of a command of Slurm, or "" where it fails."""
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, cwd=cwd, check=False).stdout

    def submit(self, *words, cwd):
        """The job's number."""
        done = subprocess.run(["sbatch", "--parsable", *map(str, words)], env=self.environment, capture_output=True,
                              text=True, cwd=cwd, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def job(self, number):
        """{key: value} of `scontrol show job`."""
        words = self.ask("scontrol", "--oneliner", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait(self, number, limit_s):
        """The job as it is when it has ended and is not to start again."""
        self.wait_for(lambda: self.job(number)["JobState"] in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"),
                       limit_s, f"the end of job {number}")
        return self.job(number)

    def close(self):
        """Jobs first, then what runs them."""
        subprocess.run(["scancel", "--state=RUNNING"], env=self.environment, capture_output=True, check=False)
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait(timeout=100)
        for each in self._sockets:
            each.close()
