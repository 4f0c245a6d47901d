"""The page of `kubectl cloudmap report --html` in a real browser, of the sandbox's shop: what a person sees of it in light
and dark, on a phone, of all clusters and of one.

    python3 .ci/pages.py            checks it; pictures go to target/ci/pictures
    python3 .ci/pages.py --update   pictures go to docs/pictures

Needs the sandbox and the plugin (`cargo build --workspace --bins --examples`), and Chromium: that of $CHROMIUM or of the
PATH; root gets Debian's. The browser is driven by the DevTools protocol through its pipe.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "target" / "debug"
PROGRAMS = ["chromium-headless-shell", "chromium", "google-chrome", "chromium-browser"]
DESKTOP, PHONE = {"width": 1200, "height": 1100, "deviceScaleFactor": 1}, {"width": 375, "height": 812, "deviceScaleFactor": 2}
# The name of a picture, the screen, the colours, and the link of the filter that is followed.
VIEWS = [
    ("report-light", DESKTOP, "light", "all"),
    ("report-dark", DESKTOP, "dark", "all"),
    ("report-cluster", DESKTOP, "light", "blue"),
    ("report-phone", PHONE, "light", "all"),
    ("report-phone-dark", PHONE, "dark", "blue"),
]
# What is wrong with the page that is shown, a line each.
WRONG = """(width => {
    const wrong = [], root = document.documentElement;
    if (root.scrollWidth > width) wrong.push(`it is ${root.scrollWidth} pixels wide, of ${width}`);
    const isShown = it => it.getClientRects().length > 0;
    const cut = [...document.querySelectorAll('body *')].filter(it => isShown(it) && it.getBoundingClientRect().right > width + 1);
    cut.slice(0, 3).forEach(it => wrong.push(`cut off: ${it.outerHTML.slice(0, 200)}`));
    const rgb = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = colour => rgb(colour).slice(0, 3).map(it => it / 255)
        .map(it => it <= 0.03928 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4)
        .reduce((sum, it, at) => sum + it * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = it => { const colour = getComputedStyle(it).backgroundColor;
        return rgb(colour)[3] === 0 && it.parentElement ? behind(it.parentElement) : colour; };
    const isText = it => [...it.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    for (const it of [...document.querySelectorAll('body *')].filter(it => isText(it) && isShown(it))) {
        const [dark, bright] = [light(getComputedStyle(it).color), light(behind(it))].sort((a, b) => a - b);
        const contrast = (bright + 0.05) / (dark + 0.05);
        if (contrast < 4.5) wrong.push(`contrast ${contrast.toFixed(1)}: ${it.outerHTML.slice(0, 120)}`);
    }
    const isDark = light(behind(document.body)) < 0.2;
    if (isDark !== matchMedia('(prefers-color-scheme: dark)').matches) wrong.push('its colours are not those that were asked for');
    for (const bar of document.querySelectorAll('.bar')) {
        if (bar.childElementCount !== bar.nextElementSibling.children.length) wrong.push(`a bar without its text: ${bar.outerHTML}`);
    }
    return wrong.join('\\n');
})(%d)"""
# How many rows are shown of all clusters but one, and of that one.
SHOWN = """(link => { const rows = [...document.querySelectorAll('.row')].filter(it => it.getClientRects().length);
    return [rows.filter(it => !it.classList.contains(link.id)).length, rows.filter(it => it.classList.contains(link.id)).length];
})([...document.querySelectorAll('nav a')].find(it => it.textContent === %s))"""


class Browser:
    """Chromium, with one tab."""

    def __init__(self, program, profile):
        (commands, self.commands), (self.answers, answers) = os.pipe(), os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
        # Chromium reads from its file 3 and writes to its file 4.
        start = ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "bash", program, *options, "--remote-debugging-pipe"]
        self.process = subprocess.Popen(start, pass_fds=[commands, answers], stderr=subprocess.DEVNULL)
        os.close(commands), os.close(answers)
        self.buffer, self.session, self.number = b"", None, 0
        tab = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        self.call("Page.enable")

    def message(self):
        while b"\0" not in self.buffer:
            read = os.read(self.answers, 1 << 20)
            if not read:
                sys.exit(f"the browser has ended with {self.process.wait()}")
            self.buffer += read
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        call = {"id": self.number, "method": method, "params": parameters, "sessionId": self.session}
        os.write(self.commands, json.dumps({key: it for key, it in call.items() if it is not None}).encode() + b"\0")
        while (answer := self.message()).get("id") != self.number:
            pass
        return answer["result"]

    def evaluate(self, script):
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def open(self, page, screen, colours):
        self.call("Emulation.setDeviceMetricsOverride", mobile=screen is PHONE, **screen)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": colours}])
        self.call("Page.navigate", url=page.as_uri())
        while self.message().get("method") != "Page.loadEventFired":
            pass

    def picture(self):
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])


def find_browser():
    named = [os.environ.get("CHROMIUM"), *map(shutil.which, PROGRAMS)]
    if not any(named) and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run("apt-get -qq update && apt-get -qq install --no-install-recommends chromium-headless-shell", shell=True)
        named = [shutil.which(PROGRAMS[0])]
    return next(filter(None, named), None) or sys.exit(f"no browser: install one of {PROGRAMS}, or name it in CHROMIUM")


def make_page(page):
    """The page about the sandbox's shop, since before the name checkout was moved."""
    sandbox = subprocess.Popen([BUILT / "examples" / "sandbox", "--shop", "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        environment = dict(os.environ)
        for line in sandbox.stdout:
            if exported := re.fullmatch(r"export (\w+)='(.*)'\n", line):
                environment[exported[1]] = exported[2]
            elif line.startswith("# then"):
                break

        def plugin(arguments):
            command = [BUILT / "kubectl-cloudmap", *arguments.split()]
            return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout

        before = page.with_suffix(".json")
        before.write_text(plugin("status --all-clusters -o json"))
        plugin("sync service/checkout -n shop --cluster blue")
        page.write_text(plugin(f"report --html --all-clusters --since {before}"))
    finally:
        sandbox.kill()


def main():
    pictures = ROOT / ("docs/pictures" if "--update" in sys.argv else "target/ci/pictures")
    pictures.mkdir(parents=True, exist_ok=True)
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        make_page(page)
        browser = Browser(find_browser(), Path(folder) / "profile")
        for name, screen, colours, cluster in VIEWS:
            browser.open(page, screen, colours)
            if cluster != "all":
                before = browser.evaluate(SHOWN % json.dumps(cluster))
                browser.evaluate(f"[...document.querySelectorAll('nav a')].find(it => it.textContent === '{cluster}').click()")
                after = browser.evaluate(SHOWN % json.dumps(cluster))
                if not (before[0] > 0 and after == [0, before[1]]):
                    wrong.append(f"{name}: the filter leaves {after} rows of others and of {cluster}, of {before}")
            wrong += [f"{name}: {line}" for line in browser.evaluate(WRONG % screen["width"]).splitlines()]
            (pictures / f"{name}.png").write_bytes(browser.picture())
            print(pictures / f"{name}.png")
        browser.process.kill()
        browser.process.wait()
    if wrong:
        sys.exit("\n".join(wrong))


main()
