"""The page of `kubectl cloudmap report --html` in a real browser, of the sandbox's shop: what a person sees of it in light
and dark, on a phone, of all clusters and of one.

    target/ci/venv/bin/python .ci/pages.py            checks it; pictures go to target/ci/pictures
    target/ci/venv/bin/python .ci/pages.py --update   pictures go to docs/pictures

Needs the sandbox and the plugin (`cargo build --workspace --bins --examples`), Playwright, and Chromium: that of $CHROMIUM or
of the PATH; root gets Debian's.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "target" / "debug"
PROGRAMS = ["chromium-headless-shell", "chromium", "google-chrome", "chromium-browser"]
PICTURES = ROOT / ("docs/pictures" if "--update" in sys.argv else "target/ci/pictures")
DESKTOP = {"viewport": {"width": 1200, "height": 1100}}
PHONE = {"viewport": {"width": 375, "height": 812}, "device_scale_factor": 2, "is_mobile": True}
# The name of a picture, the screen, the colours, and the link of the filter that is followed.
VIEWS = [
    ("report-light", DESKTOP, "light", "all"),
    ("report-dark", DESKTOP, "dark", "all"),
    ("report-cluster", DESKTOP, "light", "blue"),
    ("report-phone", PHONE, "light", "all"),
    ("report-phone-dark", PHONE, "dark", "blue"),
]
# What is wrong with the page that is shown, a line each.
WRONG = """width => {
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
    return wrong;
}"""
# How many rows are shown of all clusters but one, and of that one.
SHOWN = """cluster => {
    const link = [...document.querySelectorAll('nav a')].find(it => it.textContent === cluster);
    const rows = [...document.querySelectorAll('.row')].filter(it => it.getClientRects().length);
    return [rows.filter(it => !it.classList.contains(link.id)).length, rows.filter(it => it.classList.contains(link.id)).length];
}"""


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


def look(browser, address, view):
    """Takes a picture of the page, and returns what is wrong with it."""
    name, screen, colours, cluster = view
    page = browser.new_page(color_scheme=colours, **screen)
    page.goto(address)
    wrong = []
    if cluster != "all":
        before = page.evaluate(SHOWN, cluster)
        page.get_by_role("navigation").get_by_text(cluster, exact=True).click()
        after = page.evaluate(SHOWN, cluster)
        if not (before[0] > 0 and after == [0, before[1]]):
            wrong = [f"the filter leaves {after} rows of others and of {cluster}, of {before}"]
    picture = PICTURES / f"{name}.png"
    page.screenshot(path=picture)
    print(picture)
    return [f"{name}: {line}" for line in wrong + page.evaluate(WRONG, screen["viewport"]["width"])]


def main():
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "report.html"
        make_page(page)
        browser = playwright.chromium.launch(executable_path=find_browser())
        wrong = [line for view in VIEWS for line in look(browser, page.as_uri(), view)]
    if wrong:
        sys.exit("\n".join(wrong))


main()
