#!/usr/bin/env python3
"""scripts/check_portable.py on programs of which it is known what they need."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
# sqrt() of a value that is not known keeps the C library's mathematics in.
SOURCE = "#include <cmath>\n#include <iostream>\nint main(int n, char**) { std::cout << std::sqrt(n) << std::pow(n, 0.3); }\n"


class Portable(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)

    def program(self, name, *flags):
        path = pathlib.Path(self.scratch.name) / name
        subprocess.run(["g++", "-x", "c++", "-", "-o", path, *flags], input=SOURCE, text=True, check=True)
        return path

    def check(self, *arguments):
        return subprocess.run([sys.executable, ROOT / "scripts/check_portable.py", *map(str, arguments)],
                              capture_output=True, text=True)

    def test_a_library_that_not_every_system_has_is_named(self):
        result = self.check("--glibc", "9.9", self.program("shared"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("libstdc++.so.6", result.stderr)

    def test_a_program_that_needs_the_c_library_alone_passes_and_its_newest_symbol_is_told(self):
        program = self.program("alone", "-static-libstdc++")
        result = self.check("--glibc", "9.9", program)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"alone: [\d.]+ MiB, glibc 2\.\d+ \(\w+\)")

    def test_a_symbol_of_a_newer_c_library_is_named(self):
        result = self.check("--glibc", "2.1", self.program("newer", "-static-libstdc++"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("newer than 2.1", result.stderr)

    def test_programs_that_are_too_large_together_are_refused(self):
        program = self.program("large", "-static-libstdc++")
        self.assertEqual(self.check("--glibc", "9.9", "--total-mib", "0.001", program).returncode, 1)


if __name__ == "__main__":
    unittest.main()
