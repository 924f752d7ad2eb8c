"""What contrib/monitoring names must be in /metrics of a server: every metric, and every label that a rule or legend takes.

Usage: monitoring.py PATH-OF-FOREBAY, with the Python of target/test-tools, which has YAML. Debian's promtool, if it is installed, checks the
rules themselves.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import yaml

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "contrib/monitoring"
MOST_SECONDS = 30


def metrics(forebay):
    """Each metric that a server with a volume shows, as Prometheus names it, and its labels."""
    with tempfile.TemporaryDirectory(prefix="forebay-") as folder:
        words = ["serve", "--volume", "data=memory:16MiB", "--cache", "8MiB", "--metrics", "127.0.0.1:0", "--listen", f"unix:{folder}/socket"]
        log = pathlib.Path(folder) / "log"
        with log.open("wb") as stderr:
            server = subprocess.Popen([forebay, *words], stderr=stderr)
        try:
            end = time.monotonic() + MOST_SECONDS
            while not (said := re.search(r"figures at (http://\S+)", log.read_text())):
                if time.monotonic() > end or server.poll() is not None:
                    sys.exit(f"the server names no address of its figures within {MOST_SECONDS} s: {log.read_text()}")
                time.sleep(0.02)
            page = urllib.request.urlopen(said[1], timeout=MOST_SECONDS).read().decode()
        finally:
            server.kill()
            server.wait()
    found = {}
    for name, labels in re.findall(r"^(forebay_\w+)(?:\{(.*)\})? \S+$", page, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def uses(found, where, expression, text):
    """What is wrong with an expression, and with the labels that a text takes of it."""
    named = set(re.findall(r"forebay_\w+", expression))
    wrong = [f"{where}: there is no metric {name}" for name in sorted(named - set(found))]
    labels = {"instance", "job"}.union(*(found.get(name, ()) for name in named))
    taken = set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text))
    taken.update(label for group in re.findall(r"by \(([^)]*)\)", expression) for label in re.findall(r"\w+", group))
    return wrong + [f"{where}: its metrics have no label {label}" for label in sorted(taken - labels)]


def main():
    found = metrics(sys.argv[1])
    wrong, count = [], 0
    for panel in json.loads((FOLDER / "grafana.json").read_text())["panels"]:
        for target in panel["targets"]:
            wrong += uses(found, f"grafana.json, {panel['title']}", target["expr"], target["legendFormat"])
            count += 1
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            wrong += uses(found, f"alerts.yml, {rule['alert']}", rule["expr"], rule["annotations"]["summary"])
            count += 1
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"monitoring: {count} expressions name metrics and labels that there are")
    if shutil.which("promtool"):
        subprocess.run(["promtool", "check", "rules", FOLDER / "alerts.yml"], check=True)
    else:
        print("monitoring: promtool is not installed (Debian: prometheus), so the rules' grammar is not checked")


if __name__ == "__main__":
    main()
