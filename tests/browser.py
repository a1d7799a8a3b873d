"""A headless Chromium driven by Playwright, for tests of HTML pages."""

import shutil
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Browser:
    """A tab that records requests and problems since the last page was opened."""

    def __init__(self, playwright, program):
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        self._browser = playwright.chromium.launch(executable_path=program, args=arguments)
        self._pages = {}
        self.page = None
        self.requests = []
        self.problems = []

    def open(self, address, *, width=1280, dark=False):
        """Open a page in a window of this width and wait until it is loaded.

        Pages from files keep nothing, and a new window takes long.
        """
        kind = width, dark, address.startswith("file:")
        for other in [other for other in self._pages if not other[2]]:
            self._pages.pop(other).context.close()
        if kind not in self._pages:
            self._pages[kind] = self._new_page(width, dark)
        self.page = self._pages[kind]
        self.page.goto("about:blank")
        self.requests, self.problems = [], []
        self.page.goto(address, wait_until="load")

    def _new_page(self, width, dark):
        context = self._browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            is_mobile=width < 600,
        )
        page = context.new_page()
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.problems.append(message.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        return page

    def run(self, expression):
        """Return the value of a JavaScript expression; promises are awaited."""
        return self.page.evaluate(expression)

    def print(self):
        """Return the page as a PDF, on A4 unless its style sheet says otherwise."""
        return self.page.pdf(format="A4", prefer_css_page_size=True, print_background=True)

    def close(self):
        self._browser.close()


@contextmanager
def open_browser():
    """Start a browser; tests are skipped if there is none."""
    program = next((path for path in map(shutil.which, NAMES) if path), None)
    if program is None:
        pytest.skip("Chromium is not installed")
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = Browser(playwright, program)
        yield browser
        browser.close()
