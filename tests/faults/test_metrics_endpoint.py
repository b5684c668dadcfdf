"""Clients that do what no scraper should, while a run trains, saves and ends: it does not notice."""

import http.client
import json
import random
import socket
import threading
import time
import urllib.request

import pytest
from runs import assert_bit_equal, slow_from
from watch import wait_until

SAVES = ["checkpoint.save_steps=2", "run.max_steps=30"]
# An address of the loopback network whose ports no other test session takes.
ADDRESS = ".".join(["127", *(str(random.randrange(1, 255)) for _ in range(3))])
SERVE = ["metrics.serve=true", "metrics.port=29400", f"metrics.address={ADDRESS}"]
# Time for the clients to come, and in any case one of them before the end.
LINGERS = [*slow_from(2, 29, seconds=0.2), "metrics.last_scrape_timeout_s=120"]


def endpoints(run, ranks):
    """Of all ranks, once they are there."""
    targets = run / "metrics-targets.json"
    wait_until(targets.exists, "the endpoints")
    found = [target for entry in json.loads(targets.read_text()) for target in entry["targets"]]
    assert len(found) == ranks and all(target.startswith(f"{ADDRESS}:") for target in found)
    return found


def connect(target):
    host, port = target.split(":")
    return socket.create_connection((host, int(port)), timeout=60)


class Clients:
    """Threads and connections against every endpoint, until the program is gone."""

    def __init__(self, targets):
        self.pages = 0
        self.page = ""
        self._stop = False
        self._slow = [connect(target) for target in targets for _ in range(50)]
        for number, client in enumerate(self._slow):
            # Some never finish the request, some never read the answer.
            client.sendall(b"GET /metr" if number % 2 else b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        work = [self._scrape, self._scrape, self._garbage]
        self._threads = [threading.Thread(target=f, args=(t,)) for t in targets for f in work]
        for thread in self._threads:
            thread.start()

    def _scrape(self, target):
        while not self._stop:
            try:
                with urllib.request.urlopen(f"http://{target}/metrics", timeout=60) as answer:
                    self.page = answer.read().decode()
                    self.pages += 1
            except (OSError, http.client.HTTPException):  # the run is over
                time.sleep(0.01)

    def _garbage(self, target):
        dice = random.Random(target)
        while not self._stop:
            try:
                with connect(target) as client:
                    client.sendall(dice.randbytes(dice.randrange(1, 5000)) + b"\r\n\r\n")
                    client.recv(100)
            except OSError:
                time.sleep(0.01)

    def stop(self):
        self._stop = True
        for thread in self._threads:
            thread.join()
        for client in self._slow:
            client.close()


@pytest.mark.parametrize("ranks", [1, 2])
def test_bad_clients_do_not_change_a_run(lab, ranks):
    alone = lab.run(f"alone-{ranks}", *SAVES, ranks=ranks)
    process = lab.start(f"watched-{ranks}", *SAVES, *SERVE, *LINGERS, ranks=ranks)
    watched = lab.folder / "runs" / f"watched-{ranks}"
    clients = Clients(endpoints(watched, ranks))
    code, _, err = lab.finish(process)
    clients.stop()
    assert code == 0, err
    assert clients.pages > 0 and "packtrain_data_bad_lines" in clients.page
    assert_bit_equal(watched, alone)


def test_ports_that_are_taken_cost_a_warning(lab):
    taken = []
    for port in range(29600, 29701):
        listener = socket.socket()
        try:
            listener.bind((ADDRESS, port))
            listener.listen()
        except OSError:  # of a program that listens at every address: taken too
            pass
        taken.append(listener)
    code, _, err = lab.finish(lab.start("no-port", "run.max_steps=2", *SERVE, "metrics.port=29600", ranks=2))
    for listener in taken:
        listener.close()
    assert code == 0, err
    assert "no metrics endpoint on this rank" in err and "training continues" in err
