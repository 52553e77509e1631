"""A page in headless Chromium, and the answer of a script that runs in it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def browsed(tmp_path: Path, text: str, script: str, *more: str, hash_: str = "") -> Any:
    """Run `script`, the body of a function, on the page in a browser with options `more`."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        pytest.skip(f"no browser: none of {', '.join(_BROWSERS)} is installed")
    # Faults are gathered before the page's own script runs, the answer is written after it.
    faults = "<script>window.faults = []; addEventListener('error', (e) => faults.push(e.message));</script>"
    told = f"document.getElementById('answer').textContent = JSON.stringify((() => {{{script}}})());"
    probed = text.replace("<head>", f"<head>{faults}")
    file = tmp_path / "page.html"
    file.write_text(
        probed.replace("</body>", f"<pre id='answer'></pre><script>{told}</script></body>"), "utf-8"
    )
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        *more,
    ]
    command = [browser, *options, "--dump-dom", file.as_uri() + hash_]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    (answer,) = re.findall(r'<pre id="answer">(.*?)</pre>', done.stdout, re.DOTALL)
    return json.loads(unescape(answer))
