#!/usr/bin/env python3
"""scripts/deps.sh on machines of several kinds, each played by a folder of stand-in programs."""

import os
import pathlib
import pty
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
REAL = ["bash", "cat", "dirname", "env", "grep", "install", "mkdir", "mktemp", "rm", "touch"]


class Deps(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.log = self.folder / "apt.log"
        for name in REAL:
            (self.bin / name).symlink_to(shutil.which(name))

    def program(self, name, body):
        path = self.bin / name
        path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        path.chmod(0o755)

    def debian(self, installed, root=True, apt="exit 0", trial="exit 0"):
        """A Debian on which dpkg-query knows the packages that `installed` (a bash test of $p) accepts."""
        self.program("dpkg-query", 'shift 2; for p in "$@"; do if ' + installed
                     + '; then echo "installed $p"; else echo "not-installed $p"; fi; done; exit 1')
        self.program("apt-get", f'[[ "$*" != *--simulate* ]] || {trial}; echo "apt-get $*" >>{self.log}; {apt}')
        self.program("id", 'if [ "$1" = -un ]; then echo tester; else echo ' + ("0" if root else "1000") + "; fi")

    def run_deps(self, *sets, terminal_answer=None, **env):
        env = {"PATH": str(self.bin), "LCAB_TOOLS_DIR": str(self.folder / "tools"), **env}
        command = [str(self.bin / "bash"), str(ROOT / "scripts/deps.sh"), *sets]
        if terminal_answer is None:
            stdin, close = subprocess.DEVNULL, []
        else:
            try:
                ours, stdin = pty.openpty()
            except OSError as error:
                self.skipTest(f"no terminal can be made here: {error}")
            os.write(ours, terminal_answer.encode())
            close = [ours, stdin]
        result = subprocess.run(command, env=env, stdin=stdin, capture_output=True, text=True, timeout=60)
        for descriptor in close:
            os.close(descriptor)
        return result

    def apt_calls(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def test_says_one_line_and_changes_nothing_when_all_is_there(self):
        self.debian("true")
        result = self.run_deps("build")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "deps: all there (build)\n", ""))
        self.assertEqual(self.apt_calls(), [])

    def test_installs_only_what_is_missing_and_names_it(self):
        self.debian('[[ $p != libfmt-dev ]]')
        result = self.run_deps("build")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("missing: libfmt-dev\n", result.stdout)
        self.assertEqual(len(self.apt_calls()), 1)
        self.assertTrue(self.apt_calls()[0].endswith("install -y --no-install-recommends libfmt-dev"))

    def test_updates_its_lists_first_where_they_do_not_know_the_package(self):
        self.debian('[[ $p != libfmt-dev ]]', trial="exit 100")
        result = self.run_deps("build")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(["update" in call for call in self.apt_calls()], [True, False])

    def test_updates_its_lists_when_the_mirror_has_moved_on(self):
        self.debian('[[ $p != libfmt-dev ]]', apt=f'[[ "$*" == *update* ]] || (( $(grep -c install {self.log}) > 1 ))')
        result = self.run_deps("build")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(["update" in call for call in self.apt_calls()], [False, True, False])

    def test_fails_with_the_names_when_apt_cannot(self):
        self.debian('[[ $p != libfmt-dev ]]', apt="exit 100")
        result = self.run_deps("build")
        self.assertEqual(result.returncode, 1)
        self.assertIn("could not install: libfmt-dev", result.stderr)

    def test_asks_on_a_terminal_and_no_means_no(self):
        self.debian('[[ $p != libfmt-dev ]]')
        result = self.run_deps("build", terminal_answer="n\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn("nothing was changed", result.stderr)
        self.assertEqual(self.apt_calls(), [])

    def test_asks_on_a_terminal_and_return_means_yes(self):
        self.debian('[[ $p != libfmt-dev ]]')
        self.assertEqual(self.run_deps("build", terminal_answer="\n").returncode, 0)
        self.assertEqual(len(self.apt_calls()), 1)

    def test_does_not_ask_when_told_yes(self):
        self.debian('[[ $p != libfmt-dev ]]')
        self.assertEqual(self.run_deps("build", terminal_answer="n\n", YES="1").returncode, 0)
        self.assertEqual(len(self.apt_calls()), 1)

    def test_uses_sudo_when_not_root_and_says_so(self):
        self.debian('[[ $p != libfmt-dev ]]', root=False)
        self.program("sudo", f'echo sudo >>{self.log}; exec "$@"')
        result = self.run_deps("build")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("under sudo", result.stdout)
        self.assertEqual(self.apt_calls()[0], "sudo")

    def test_without_root_or_sudo_tells_the_command(self):
        self.debian('[[ $p != libfmt-dev ]]', root=False)
        result = self.run_deps("build")
        self.assertEqual(result.returncode, 1)
        self.assertIn("as root: apt-get install --no-install-recommends libfmt-dev", result.stderr)

    def test_elsewhere_than_on_debian_says_what_is_needed(self):
        result = self.run_deps("build")
        self.assertEqual(result.returncode, 1)
        self.assertIn("not Debian", result.stderr)
        self.assertIn("libfmt-dev", result.stderr)

    def test_refuses_a_set_that_it_does_not_know(self):
        self.debian("true")
        result = self.run_deps("tset")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no set of packages is called 'tset'; there are: build, test, dist", result.stderr)

    def test_unpacks_a_tool_without_installing_its_package(self):
        self.debian("true", apt="touch prometheus_1_amd64.deb")
        self.program("dpkg", 'mkdir -p "$3/usr/bin" && echo tool >"$3/usr/bin/promtool"')
        result = self.run_deps("test")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(os.access(self.folder / "tools/bin/promtool", os.X_OK))
        self.assertTrue(self.apt_calls()[0].endswith("download prometheus"))
        self.assertEqual(self.run_deps("test").stdout, "deps: all there (test)\n")


if __name__ == "__main__":
    unittest.main()
