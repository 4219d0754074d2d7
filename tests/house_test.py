#!/usr/bin/env python3
"""The rule of the house holds: which folder may use which is told once in docs/architecture.md and once
in cmake/layers.cmake, both agree, and no link and no #include goes another way.

    tests/house_test.py <build folder>

CMake leaves the table and all targets in <build folder>/house.txt.
"""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = {".h", ".cc", ".cu", ".cuh"}
build = pathlib.Path("build/release")


def read_house(path):
    """(may_use: folder -> set, targets: name -> (folder, links), headers: set)"""
    may_use, targets, headers = {}, {}, set()
    for line in path.read_text().splitlines():
        kind, *fields = line.split()
        if kind == "may_use":
            may_use[fields[0]] = set(fields[1:])
        elif kind == "target":
            name, folder, _, *links = fields
            targets[name] = (folder, links)
        elif kind == "header":
            headers.add(fields[0])
    return may_use, targets, headers


def read_document(path):
    """The table under 'The house', its last column spelt out."""
    section = path.read_text().split("## The house", 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in section.splitlines() if line.startswith("| ")][1:]
    rows = [row for row in rows if not row[0].startswith("-")]
    folders = [row[0] for row in rows]
    may_use = {}
    for index, (folder, _, rule) in enumerate(rows):
        rule, _, without = rule.partition(", without ")
        if rule == "nothing":
            used = []
        elif rule == "everything below":
            used = folders[index + 1:]
        elif rule.endswith(" and below"):
            used = folders[folders.index(rule.removesuffix(" and below")):]
        else:
            used = [rule]
        may_use[folder] = set(used) - {without}
    return may_use


def tracked(*patterns):
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    names = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


class House(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.may_use, cls.targets, cls.headers = read_house(build / "house.txt")

    def test_document_and_cmake_tell_the_same_rule(self):
        self.assertEqual(read_document(ROOT / "docs/architecture.md"), self.may_use)

    def test_rule_has_no_circle(self):
        for folder, used in self.may_use.items():
            for other in used:
                self.assertNotIn(folder, self.may_use[other], f"{folder} and {other} may use each other")

    def test_every_link_follows_the_rule(self):
        for target, (folder, links) in self.targets.items():
            for link in links:
                used = self.targets.get(link, (None,))[0]
                if used is None or used == folder or folder == "tests":
                    continue
                self.assertIn(used, self.may_use[folder], f"{target} links {link}")

    def test_every_include_follows_the_rule(self):
        for name in tracked():
            path = pathlib.PurePath(name)
            folder = path.parts[0]
            if path.suffix not in SOURCES or folder not in self.may_use:
                continue
            for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', (ROOT / name).read_text(), re.M):
                used = "proto" if included.startswith("lcab/v1/") else included.split("/")[0]
                if used in self.may_use and used != folder:
                    self.assertIn(used, self.may_use[folder], f"{name} includes {included}")

    def test_every_header_is_listed_and_so_compiled_alone(self):
        ours = {name for name in tracked("*.h")
                if name.split("/")[0] in {*self.may_use, "cmake", "tests"}}
        self.assertEqual(sorted(ours - self.headers), [], "headers that no HEADERS names")

    def test_proof_and_byte_formulas_share_no_code_with_what_they_judge(self):
        for judge, sources, own in (("lcab_cp_prove", ["cp/prove*", "cp/proof/*"], ("cp/plan.h", "cp/prove.h", "cp/proof/")),
                                    ("lcab_cp_bytes", ["cp/bytes*"], ("cp/bytes.h",))):
            seen, todo = set(), [judge]
            while todo:
                target = todo.pop()
                if target not in seen:
                    seen.add(target)
                    todo += self.targets.get(target, (None, []))[1]
            allowed = {judge, "lcab_cp_plan", "lcab_attention", "lcab_proto", "lcab_version"}
            ours = {name for name in seen if name.startswith("lcab_")}
            self.assertEqual(sorted(ours - allowed), [], f"{judge} reaches these")
            for name in tracked(*sources):
                if name.endswith("_test.cc"):
                    continue
                for included in re.findall(r'^#include "(cp/[^"]+)"', (ROOT / name).read_text(), re.M):
                    self.assertTrue(included.startswith(own), f"{name} includes {included}")

    def test_runner_links_no_grpc(self):
        if "lcab-runner" not in self.targets:
            self.skipTest("there is no lcab-runner in this build")
        seen, todo = set(), ["lcab-runner"]
        while todo:
            target = todo.pop()
            if target in seen:
                continue
            seen.add(target)
            todo += self.targets.get(target, (None, []))[1]
        grpc = [name for name in seen if "grpc" in name.lower()]
        self.assertEqual(grpc, [], "lcab-runner reaches gRPC")


if __name__ == "__main__":
    build = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else build
    unittest.main()
