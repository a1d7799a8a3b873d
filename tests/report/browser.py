"""A browser without a window, spoken to through two pipes: no driver and no network are needed.

Chromium takes commands of its DevTools protocol on file descriptor 3 and answers on 4; a zero byte ends a message.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)
PATIENCE = 60


def find_browser():
    """The path of a browser, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """A browser that runs, and one tab of it."""

    def __init__(self, program, folder):
        inward, self.writing = os.pipe()
        self.reading, outward = os.pipe()
        words = [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        # bash and no shell else: it moves descriptors of any number.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{inward} 4>&{outward}', "bash", *words],
            pass_fds=(inward, outward),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(inward)
        os.close(outward)
        self.last, self.rest, self.session, self.events = 0, b"", None, []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{part}.enable")

    def ask(self, method, **parameters):
        """The answer to a command; what happens meanwhile is kept in ``events``."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.hear()
            if answer.get("id") == self.last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def hear(self):
        """The next message."""
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.rest:
            ready, _, _ = select.select(
                [self.reading], [], [], max(0.0, deadline - time.monotonic())
            )
            assert ready, "the browser does not answer"
            part = os.read(self.reading, 1 << 20)
            assert part, "the browser has ended"
            self.rest += part
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def open(self, address, *, width=1280, dark=False):
        """Shows the page in a window of that width, and waits until it is there."""
        self.events.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.ask("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.hear())

    def happened(self, method):
        """What the browser told of that since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def run(self, expression):
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def print(self):
        """The page as a PDF, on A4 unless it says otherwise."""
        printed = self.ask("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        return base64.b64decode(printed["data"])

    def shoot(self):
        """The whole page as a PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(shot["data"])

    def close(self):
        """Ends the browser."""
        self.session = None
        try:
            self.ask("Browser.close")
        except (AssertionError, OSError):
            self.process.terminate()
        self.process.wait(PATIENCE)
        os.close(self.writing)
        os.close(self.reading)
