"""Requests to stop, noted by signal handlers for those who wait for a job."""

import signal


class StopRequests:
    GRACEFUL = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
    ALL = (*GRACEFUL, signal.SIGQUIT)

    def __init__(self):
        self.asked = False
        self.at_once = False
        self.number = 0  # of the latest

    def watch(self) -> None:
        """From now on. packtrain-run is started with these signals blocked, so that none is lost before."""
        for number in self.ALL:
            signal.signal(number, self._note)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self.ALL)

    def _note(self, number, _frame):
        self.asked = True
        self.number = number
        self.at_once |= number == signal.SIGQUIT
