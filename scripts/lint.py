#!/usr/bin/env python3
"""Runs clang-tidy on our sources, in parallel, and only on those that changed.

A source that passed is not linted again until its own text, that of any header it includes, its flags,
the checks or clang-tidy itself changes. What passed is remembered by content below $LCAB_LINT_CACHE
(default: ~/.cache/lcab/lint), so that all clones on a machine share it.

The build must be up to date: Ninja's record of what each object included is what tells the headers.
"""

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

CLANG_TIDY = "clang-tidy-14"
# Warnings of the compiler proper are GCC's to give, which compiled the same source with -Werror.
OPTIONS = ["--quiet", "--extra-arg=-Wno-error", "--extra-arg=-Wno-unknown-warning-option"]
KEEP_SECONDS = 30 * 24 * 3600


@functools.lru_cache(maxsize=None)
def content_hash(path):
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "absent"


def included_files(build):
    """Object file (relative to the build) -> absolute paths of all it was made from."""
    text = subprocess.run(
        ["ninja", "-C", str(build), "-t", "deps"], check=True, capture_output=True, text=True
    ).stdout
    deps, current = {}, None
    for line in text.splitlines():
        header = re.match(r"(\S.*): #deps \d+, deps mtime \d+ \((\w+)\)$", line)
        if header:
            current = deps.setdefault(header[1], []) if header[2] == "VALID" else None
        elif current is not None and line.startswith("    "):
            current.append(pathlib.Path(os.path.normpath(build / line.strip())))
    return deps


class Linter:
    def __init__(self, root, build, cache):
        self.root, self.build, self.cache = root, build, cache
        self.deps = included_files(build)
        version = subprocess.run([CLANG_TIDY, "--version"], check=True, capture_output=True).stdout
        self.common = version + (root / ".clang-tidy").read_bytes() + str(OPTIONS).encode()

    def portable(self, text):
        return str(text).replace(str(self.build), "<build>").replace(str(self.root), "<root>")

    def key(self, entry):
        """None when it is not known what the source includes."""
        command = shlex.split(entry["command"])
        files = self.deps.get(command[command.index("-o") + 1])
        if not files:
            return None
        digest = hashlib.sha256(self.common + self.portable(entry["command"]).encode())
        for path in sorted(files):
            digest.update(f"{self.portable(path)} {content_hash(path)}\n".encode())
        return digest.hexdigest()

    def lint(self, entry):
        """(name, seconds, complaint); None for the seconds when it passed before."""
        name = str(pathlib.Path(entry["file"]).relative_to(self.root))
        key = self.key(entry)
        mark = self.cache / key if key else None
        if mark and mark.exists():
            mark.touch()
            return name, None, ""
        start = time.monotonic()
        result = subprocess.run(
            [CLANG_TIDY, "-p", str(self.build), *OPTIONS, entry["file"]], capture_output=True, text=True)
        seconds = time.monotonic() - start
        if result.returncode != 0:
            return name, seconds, result.stdout or result.stderr
        if mark:
            mark.touch()
        return name, seconds, ""


def our_sources(root, build):
    commands = json.loads((build / "compile_commands.json").read_text())
    seen = set()
    for entry in commands:
        path = pathlib.Path(entry["file"])
        ours = root in path.parents and build not in path.parents
        if ours and path.suffix == ".cc" and path not in seen:
            seen.add(path)
            yield entry


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("sources", nargs="*", help="only sources whose path contains one of these")
    args = parser.parse_args()

    root = pathlib.Path(__file__).resolve().parent.parent
    build = args.build.resolve()
    cache = pathlib.Path(os.environ.get("LCAB_LINT_CACHE") or pathlib.Path.home() / ".cache/lcab/lint")
    cache.mkdir(parents=True, exist_ok=True)
    for mark in cache.iterdir():
        if time.time() - mark.stat().st_mtime > KEEP_SECONDS:
            mark.unlink(missing_ok=True)

    linter = Linter(root, build, cache)
    entries = [e for e in our_sources(root, build)
               if not args.sources or any(s in e["file"] for s in args.sources)]
    failed, linted = [], 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for done in concurrent.futures.as_completed([pool.submit(linter.lint, e) for e in entries]):
            name, seconds, complaint = done.result()
            linted += seconds is not None
            if complaint:
                failed.append(name)
                print(complaint.replace(f"{root}/", ""), flush=True)
    print(f"lint: {len(entries)} sources, {len(entries) - linted} unchanged since they passed, "
          f"{len(failed)} with findings")
    for name in sorted(failed):
        print(f"  {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
