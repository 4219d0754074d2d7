#include "client/config.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace lcab::client {
namespace {

// More than any sensible file; keeps a wrong path (a device, a database) from being read whole.
constexpr size_t kMostBytes = 1 << 16;

absl::Status Wrong(const std::string& path, const YAML::Mark& mark, std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("{}:{}:{}: {}", path, mark.line + 1, mark.column + 1, what));
}

absl::StatusOr<std::map<std::string, std::string>> FromYaml(const std::string& path,
                                                            const std::string& text,
                                                            const std::vector<std::string>& known) {
  std::map<std::string, std::string> values;
  const YAML::Node root = YAML::Load(text);
  if (root.IsNull()) return values;
  if (!root.IsMap()) return Wrong(path, root.Mark(), "expected a map, as in `server: host:7750`");
  for (const auto& entry : root) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return Wrong(path, entry.first.Mark(),
                   fmt::format("unknown key '{}'; keys are: {}", key, fmt::join(known, ", ")));
    }
    if (!entry.second.IsScalar()) {
      return Wrong(path, entry.second.Mark(), fmt::format("'{}' must be one text", key));
    }
    if (!values.emplace(key, entry.second.Scalar()).second) {
      return Wrong(path, entry.first.Mark(), fmt::format("'{}' is given twice", key));
    }
  }
  return values;
}

}  // namespace

std::string ConfigPath() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (std::string path = variable("LCAB_CONFIG"); !path.empty()) return path;
  if (std::string home = variable("XDG_CONFIG_HOME"); !home.empty()) {
    return home + "/lcab/config.yaml";
  }
  if (std::string home = variable("HOME"); !home.empty()) return home + "/.config/lcab/config.yaml";
  return {};
}

absl::StatusOr<std::map<std::string, std::string>> ReadConfig(
    const std::string& path, const std::vector<std::string>& known) {
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) {
    // A file that was asked for by name must be there.
    if (const char* named = std::getenv("LCAB_CONFIG"); named != nullptr && *named != '\0') {
      return absl::InvalidArgumentError(
          fmt::format("there is no file {}, which LCAB_CONFIG names", path));
    }
    return std::map<std::string, std::string>{};
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || (text.empty() && !file.eof())) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the configuration file cannot be read; check its permissions", path));
  }
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a configuration file has at most {} bytes", path, kMostBytes));
  }
  try {
    return FromYaml(path, text, known);
  } catch (const YAML::Exception& exception) {
    return Wrong(path, exception.mark, exception.msg);
  }
}

}  // namespace lcab::client
