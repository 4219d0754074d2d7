#include "suites/source.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "suites/diagnostics.h"
#include "suites/yaml_tree.h"

namespace lcab::suites {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;

absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) {
    return absl::InvalidArgumentError(
        fmt::format("{} is a folder; name a file in it", Quote(path.string())));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::InvalidArgumentError(
        fmt::format("{} cannot be read: {}", Quote(path.string()), std::strerror(errno)));
  }
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad()) {
    return absl::InvalidArgumentError(
        fmt::format("{} cannot be read: {}", Quote(path.string()), std::strerror(errno)));
  }
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{} is larger than {} bytes, the most that a "
                    "suite, or a file that it names, may have",
                    Quote(path.string()), kMostBytes));
  }
  return text;
}

// Every text under the key of histograms, wherever it stands: more than the parser will ask for
// does no harm.
void CollectFiles(const Tree& tree, std::set<std::string>& files) {
  for (const Tree& element : tree.list) CollectFiles(element, files);
  for (const TreeEntry& entry : tree.entries) {
    if (entry.key == kHistogramParameter && entry.value.kind == Tree::Kind::kScalar) {
      files.insert(entry.value.text);
    }
    CollectFiles(entry.value, files);
  }
}

// Files that cannot be read are left out: the parser then says where they are named.
void ReadNamedFiles(const std::filesystem::path& folder, SuiteSource& source) {
  Diagnostics unused(source.file_name);
  const std::optional<Tree> root = ReadYaml(source.text, unused);
  if (!root.has_value()) return;
  std::set<std::string> names;
  CollectFiles(*root, names);
  for (const std::string& name : names) {
    absl::StatusOr<std::string> text = ReadFile(folder / name);
    if (text.ok()) source.files.emplace(name, *std::move(text));
  }
}

}  // namespace

absl::StatusOr<SuiteSource> LoadSuite(std::string_view path_or_name) {
  const std::filesystem::path path(path_or_name);
  std::error_code error;
  if (!path_or_name.empty() && std::filesystem::exists(path, error)) {
    absl::StatusOr<std::string> text = ReadFile(path);
    if (!text.ok()) return text.status();
    SuiteSource source{.file_name = std::string(path_or_name), .text = *std::move(text)};
    ReadNamedFiles(path.parent_path(), source);
    return source;
  }
  std::vector<std::string> names;
  for (const ShippedSuite& suite : ShippedSuites()) {
    if (suite.name == path_or_name) {
      return SuiteSource{.file_name = fmt::format("{}.yaml (shipped)", suite.name),
                         .text = std::string(suite.text)};
    }
    names.emplace_back(suite.name);
  }
  return absl::NotFoundError(fmt::format("there is no file {}, and {}", Quote(path_or_name),
                                         UnknownName("shipped suite", path_or_name, names)));
}

}  // namespace lcab::suites
