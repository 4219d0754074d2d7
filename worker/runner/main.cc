// lcab-runner: runs one rank of one cohort after another for its worker. It may crash, hang or be
// killed alone; the worker sees to that. Not meant to be started by people.

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "cp/transport.h"
#include "fmt/format.h"
#include "lcab_version.h"
#include "worker/runner/connection.h"
#include "worker/runner/process_limits.h"
#include "worker/runner/run_cohort.h"
#include "worker/runner_exit_codes.h"

namespace {

constexpr std::string_view kUsage =
    "usage: lcab-runner --fd N [--test-hooks]\n"
    "\n"
    "Started by lcab-worker, with which it talks over the socket N.\n"
    "  --fd N         file descriptor of a connected stream socket\n"
    "  --test-hooks   honour the test hooks of a cohort\n"
    "  --version      print the version\n";

[[noreturn]] void EndForLostPeer(const char* what) {
  fmt::print(stderr, "lost another rank while connecting: {}\n", what);
  _exit(lcab::worker::kLostPeerExitCode);
}

int Run(int fd, bool test_hooks) {
  lcab::cp::OnStrayTransportException(EndForLostPeer);
  lcab::runner::OfferToMemoryKiller();
  lcab::runner::Connection connection{lcab::worker::FileDescriptor(fd)};
  lcab::runner::WarmState warm;
  warm.test_hooks = test_hooks;
  while (std::optional<lcab::v1::RunCohort> run = connection.NextCohort()) {
    const std::string discard_reason = lcab::runner::RunCohort(*run, connection, warm);
    lcab::v1::FromRunner done;
    done.mutable_done()->set_discard_reason(discard_reason);
    if (!connection.Send(done).ok() || !discard_reason.empty()) break;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int fd = -1;
  bool test_hooks = false;
  for (int n = 1; n < argc; ++n) {
    const std::string_view argument = argv[n];
    if (argument == "--version") {
      fmt::print("lcab-runner {} ({})\n", lcab::GetBuildInfo().version,
                 lcab::GetBuildInfo().commit);
      return 0;
    }
    if (argument == "--test-hooks") {
      test_hooks = true;
    } else if (argument == "--fd" && n + 1 < argc) {
      const std::string_view text = argv[++n];
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fd);
      if (error != std::errc() || end != text.data() + text.size()) fd = -1;
    } else {
      fmt::print(stderr, "lcab-runner does not know '{}'\n{}", argument, kUsage);
      return 2;
    }
  }
  if (fd < 0) {
    fmt::print(stderr, "lcab-runner needs the number of a descriptor\n{}", kUsage);
    return 2;
  }
  struct stat about {};
  if (fstat(fd, &about) != 0 || !S_ISSOCK(about.st_mode)) {
    fmt::print(stderr, "lcab-runner: descriptor {} is not an open socket\n{}", fd, kUsage);
    return 2;
  }
  return Run(fd, test_hooks);
}
