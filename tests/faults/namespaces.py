"""Hosts that are network namespaces of this machine, joined by a bridge: each with an address, a name and an end."""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import uuid

WHY_NOT = "network namespaces need iproute2, and a right that this user lacks"
NETWORK = "10.177.0.0/24"
_ADDRESS = "10.177.0.{}"

# mpirun's way to another host, as ssh has it: AGENT HOST COMMAND...
_AGENT = """#!/bin/sh
case "$1" in
{cases}
esac
[ ! -e {folder}/dead-$name ] || {{ echo "ssh: connect to host $1: No route to host" >&2; exit 255; }}
shift
ip netns exec {prefix}-$name unshare --uts --mount sh -c "{enter} && {also} $*"
code=$?
while [ -e {folder}/silent-$name ]; do sleep 0.2; done
exit $code
"""

# A name, and the names of all hosts as Debian's installer writes them: the own one is a loopback's.
_ENTER = "hostname {called} && mount --bind {folder}/names-of-{name} /etc/hosts && " \
         "mount --bind {folder}/boot-of-{name} /proc/sys/kernel/random/boot_id"


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def are_possible():
    return shutil.which("ip") is not None and subprocess.run(["unshare", "--net", "--uts", "--mount", "true"],
                                                              capture_output=True).returncode == 0


class Namespaces:
    """`names`: of the hosts; the first is where mpirun is started."""

    def __init__(self, folder, *names, one_name=None):
        """`one_name`: what all hosts call themselves, as machines do that were made from one image."""
        self.folder, self.names, self.one_name = folder, names, one_name
        self.prefix = f"packtrain-{secrets.token_hex(4)}"  # distinct from those of another test session
        self.addresses = {name: _ADDRESS.format(number) for number, name in enumerate(names, 1)}
        _ip("netns", "add", f"{self.prefix}-bridge")
        self._in("bridge", "link", "add", "bridge", "type", "bridge")
        self._in("bridge", "link", "set", "bridge", "up")
        for name in names:
            self._add(name)
            self._write_names(name)

    def _in(self, name, *words):
        _ip("-n", f"{self.prefix}-{name}", *words)

    def _add(self, name):
        _ip("netns", "add", f"{self.prefix}-{name}")
        # The first of its cards is one that leads to no other host, and has the same address on all.
        self._in(name, "link", "add", "docker0", "type", "bridge")
        self._in(name, "address", "add", "172.17.0.1/16", "dev", "docker0")
        _ip("link", "add", "card", "netns", f"{self.prefix}-{name}", "type", "veth", "peer", "name", f"to-{name}",
            "netns", f"{self.prefix}-bridge")
        self._in("bridge", "link", "set", f"to-{name}", "master", "bridge", "up")
        self._in(name, "address", "add", f"{self.addresses[name]}/24", "dev", "card")
        for link in ("lo", "docker0", "card"):
            self._in(name, "link", "set", link, "up")
        self._in(name, "route", "add", "default", "dev", "card")

    def _write_names(self, own):
        lines = ["127.0.0.1 localhost", f"127.0.1.1 {own}"]
        lines += [f"{address} {name}" for name, address in self.addresses.items() if name != own]
        (self.folder / f"names-of-{own}").write_text("\n".join(lines) + "\n")
        (self.folder / f"boot-of-{own}").write_text(f"{uuid.uuid4()}\n")

    def _enter(self, name):
        return _ENTER.format(name=name, folder=self.folder, called=self.one_name or name)

    def agent(self, path, also=""):
        """Writes the launch agent; `also`: shell commands before mpirun's helper, ending in &&."""
        cases = "\n".join(f"  {name}|{address}) name={name} ;;" for name, address in self.addresses.items())
        path.write_text(_AGENT.format(cases=cases, prefix=self.prefix, also=also, folder=self.folder,
                                      enter=self._enter("$name")))
        path.chmod(0o755)
        return str(path)

    def on(self, name, *words):
        """The command that runs `words` on that host."""
        return ["ip", "netns", "exec", f"{self.prefix}-{name}", "unshare", "--uts", "--mount", "sh", "-c",
                f'{self._enter(name)} && exec "$@"', "-", *map(str, words)]

    def on_first(self, *words):
        return self.on(self.names[0], *words)

    def cut(self, name):
        """The host is there, its network is not."""
        self._in(name, "link", "set", "card", "down")

    def kill(self, name, silent=False):
        """Simulates a power failure: nothing answers. mpirun notices by the end of the agent, except where `silent`."""
        self.cut(name)
        if silent:
            (self.folder / f"silent-{name}").touch()
        (self.folder / f"dead-{name}").touch()
        self._end_processes(name)

    def _end_processes(self, name):
        pids = subprocess.run(["ip", "netns", "pids", f"{self.prefix}-{name}"], capture_output=True, text=True).stdout
        for pid in pids.split():  # mpirun and its helper wait for each other for ever
            with contextlib.suppress(ProcessLookupError):  # ended with the one before it
                os.kill(int(pid), signal.SIGKILL)

    def close(self):
        for name in (*self.names, "bridge"):
            self._end_processes(name)
            _ip("netns", "delete", f"{self.prefix}-{name}")
