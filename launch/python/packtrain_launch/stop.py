"""Requests to stop: signal handlers record them, and the code that waits for a job reads them."""

import signal


class StopRequests:
    GRACEFUL = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
    ALL = (*GRACEFUL, signal.SIGQUIT)

    def __init__(self):
        self.asked = False
        self.at_once = False
        self.number = 0  # of the latest

    def watch(self) -> None:
        """Installs the handlers. packtrain-run starts with these signals blocked, so that none is lost
        before."""
        for number in self.ALL:
            signal.signal(number, self._note)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self.ALL)

    def _note(self, number, _frame):
        self.asked = True
        self.number = number
        self.at_once |= number == signal.SIGQUIT
