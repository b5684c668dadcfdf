"""Clocks and power of the first GPUs during a measurement, from nvidia-smi (read only)."""

import statistics
import subprocess
import threading

BUSY_PERCENT = 90


class GpuMonitor:
    """with GpuMonitor(2) as monitor: ...; monitor.summary() covers the moments when a GPU was busy."""

    def __init__(self, num_gpus=1, period_ms=100):
        self.command = [
            "nvidia-smi", "-i", ",".join(map(str, range(num_gpus))),
            "--query-gpu=utilization.gpu,clocks.sm,power.draw",
            "--format=csv,noheader,nounits", "-lms", str(period_ms)]
        self.samples = []

    def __enter__(self):
        try:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True,
                                            stderr=subprocess.DEVNULL)
        except OSError:
            self.process = None
            return self
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        return self

    def read(self):
        for line in self.process.stdout:
            try:
                self.samples.append(tuple(float(field) for field in line.split(",")))
            except ValueError:
                pass  # "[N/A]", or a line cut off at the end

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.reader.join()

    def summary(self):
        """Median clock and mean power of a GPU."""
        busy = [sample for sample in self.samples if sample[0] >= BUSY_PERCENT]
        if not busy:
            return {}
        return {"sm_mhz": statistics.median(clock for _, clock, _ in busy),
                "power_w": round(statistics.mean(power for _, _, power in busy))}
