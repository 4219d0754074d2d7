// Prometheus' own check of what /metrics serves, for tests.

#ifndef LCAB_SERVICE_PROMTOOL_FOR_TEST_H_
#define LCAB_SERVICE_PROMTOOL_FOR_TEST_H_

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace lcab::service {

// What `promtool check metrics` has to say about a scrape: empty when it finds nothing to mend.
// Nothing where promtool is not to be had (`make deps-test` puts it into the build's tools).
inline std::optional<std::string> CheckWithPromtool(const std::string& scrape) {
  std::vector<std::string> folders = {"build/tools/bin"};
  if (const char* tools = std::getenv("LCAB_TOOLS_DIR")) {
    folders.insert(folders.begin(), std::string(tools) + "/bin");
  }
  if (const char* path = std::getenv("PATH")) {
    std::istringstream parts{std::string(path)};
    for (std::string part; std::getline(parts, part, ':');) folders.push_back(part);
  }
  for (const std::string& folder : folders) {
    const std::string promtool = folder + "/promtool";
    if (!std::filesystem::exists(promtool)) continue;
    std::string base = testing::TempDir() + "/promtool-XXXXXX";
    if (mkdtemp(base.data()) == nullptr) return "no temporary folder";
    std::ofstream(base + "/scrape") << scrape;
    const int status = std::system(
        fmt::format("'{0}' check metrics <'{1}/scrape' >'{1}/said' 2>&1", promtool, base).c_str());
    std::ifstream file(base + "/said");
    std::string said((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::error_code ignored;
    std::filesystem::remove_all(base, ignored);
    if (WEXITSTATUS(status) == 0) return std::string();
    return said.empty() ? fmt::format("promtool ended with status {}", status) : said;
  }
  return std::nullopt;
}

}  // namespace lcab::service

#endif  // LCAB_SERVICE_PROMTOOL_FOR_TEST_H_
