"""Headless Chromium, driven through its DevTools pipe."""

import base64
import json
import os
import select
import shutil
import subprocess
import time

TIMEOUT_SECONDS = 120


class Browser:
    """A browser with one page. It records requests, console messages and exceptions of the page."""

    def __init__(self, profile):
        program = shutil.which("chromium")
        assert program, "no chromium: launch/setup --lint installs it"
        read_end, self._write = os.pipe()
        self._read, write_end = os.pipe()
        self._pass = (read_end, write_end)
        # The protocol is on descriptors 3 and 4.
        command = ["bash", "-c", f'exec "$@" 3<&{read_end} 4>&{write_end}', "bash", program,
                   "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(command, pass_fds=self._pass, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)
        for descriptor in self._pass:
            os.close(descriptor)
        self._buffer = b""
        self._number = 0
        self._session = None
        self.requests, self.complaints = [], []
        self._loaded = set()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def _message(self):
        end = time.monotonic() + TIMEOUT_SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0, end - time.monotonic()))
            data = os.read(self._read, 1 << 20) if ready else b""
            assert data, "chromium says nothing more"
            self._buffer += data
        text, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(text)

    def _note(self, message):
        method, values = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(values)
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning"):
            self.complaints.append(values)
        elif method == "Page.lifecycleEvent" and values["name"] == "load":
            self._loaded.add(values["loaderId"])

    def call(self, method, **values):
        self._number += 1
        request = {"id": self._number, "method": method, "params": values}
        if self._session:
            request["sessionId"] = self._session
        os.write(self._write, json.dumps(request).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def open(self, path, width, dark):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        loader = self.call("Page.navigate", url=path.as_uri())["loaderId"]
        while loader not in self._loaded:  # the load of this page, not of one before
            self._note(self._message())

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def move_pointer(self, x, y, until):
        """Waits until the expression is true: what moves before the page is painted may be lost."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while not self.evaluate(until):
            assert time.monotonic() < end, until
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
            x += 0.1

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))
