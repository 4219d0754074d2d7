#!/usr/bin/env python3
"""Tracked files say nothing of the machine or the desk they were written on, and notices are complete."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Brackets keep this file from matching itself.
FORBIDDEN = {
    r"(?<![\w.$}])/[w]ork/": "a path of somebody's machine",
    r"(?<![\w.$}])/[r]oot/": "a path of somebody's machine",
    r"(?<![\w.$}])/[h]ome/(?!user\b|you\b)\w": "a path of somebody's machine",
    r"(?i)\b[w]orkplace\b": "the place where it was written",
    r"(?i)\b[i]ssue #?\d": "a tracker that readers do not have",
    r"(?i)\b[s]ession #?\d": "somebody's diary",
    r"\b[T]ODO\b|\b[F]IXME\b|\b[X]XX\b": "unfinished work",
}


def tracked():
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    names = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


class Words(unittest.TestCase):
    def test_no_tracked_file_names_a_machine_or_a_desk(self):
        for name in tracked():
            try:
                text = (ROOT / name).read_text()
            except UnicodeDecodeError:
                continue
            for pattern, what in FORBIDDEN.items():
                for match in re.finditer(pattern, text):
                    line = text.count("\n", 0, match.start()) + 1
                    self.fail(f"{name}:{line}: '{match[0]}' names {what}")

    def test_every_linked_package_has_its_licence_in_the_notices(self):
        script = (ROOT / "scripts/deps.sh").read_text()
        notices = (ROOT / "THIRD_PARTY_NOTICES.md").read_text()
        packages = set(re.findall(r"\b[a-z0-9+-]+-dev\b", script))
        self.assertGreater(len(packages), 10)
        self.assertEqual([name for name in sorted(packages) if name not in notices], [])


if __name__ == "__main__":
    unittest.main()
