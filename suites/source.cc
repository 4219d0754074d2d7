#include "suites/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "suites/diagnostics.h"
#include "suites/yaml_tree.h"

namespace lcab::suites {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;
// All files that a suite names, together: they travel to the coordinator in one message.
constexpr size_t kMostBytesOfFiles = size_t{16} << 20;
constexpr std::string_view kStandardInput = "/dev/stdin";

// What `mode` says a file is, where it is not one to read; empty for regular files.
std::string_view UnfitKind(mode_t mode) {
  if (S_ISREG(mode)) return {};
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// The number of a descriptor that whoever started this program has opened for it, where the path
// names one: standard input, or what a shell makes of `<(...)`. It is read as it is, since opening
// it once more would wait for another writer.
std::optional<int> OpenDescriptor(std::string_view path) {
  if (path == kStandardInput) return STDIN_FILENO;
  constexpr std::string_view kFolder = "/dev/fd/";
  if (!path.starts_with(kFolder)) return std::nullopt;
  path.remove_prefix(kFolder.size());
  int number = 0;
  const auto [end, error] = std::from_chars(path.data(), path.data() + path.size(), number);
  if (error != std::errc() || end != path.data() + path.size()) return std::nullopt;
  return number;
}

absl::Status CannotBeRead(const std::string& path, int error) {
  return absl::InvalidArgumentError(
      fmt::format("{} cannot be read: {}", Quote(path), std::strerror(error)));
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const std::optional<int> given = OpenDescriptor(path);
  // Opening a pipe that nobody writes to would wait for a writer, unless asked not to.
  const int file = given.has_value() ? fcntl(*given, F_DUPFD_CLOEXEC, 0)
                                     : open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return CannotBeRead(path, errno);
  const absl::Cleanup close_file = [file] { close(file); };
  struct stat status {};
  if (fstat(file, &status) != 0) return CannotBeRead(path, errno);
  const std::string_view unfit = UnfitKind(status.st_mode);
  if (!unfit.empty() && (!given.has_value() || S_ISDIR(status.st_mode))) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is {}; {}", Quote(path), unfit,
        S_ISDIR(status.st_mode)
            ? "name a file in it"
            : "name a regular file, or give - as the suite to read it from standard input"));
  }
  // Files of /proc tell no size, and standard input has none: what is read counts.
  std::string text(kMostBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = read(file, text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CannotBeRead(path, errno);
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  text.resize(size);
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{} is larger than {} bytes, the most that a "
                    "suite, or a file that it names, may have",
                    Quote(path), kMostBytes));
  }
  return text;
}

// Every text under the key of histograms, wherever it stands, with its first place: more than the
// parser will ask for does no harm.
void CollectFiles(const Tree& tree, std::map<std::string, Location>& files) {
  for (const Tree& element : tree.list) CollectFiles(element, files);
  for (const TreeEntry& entry : tree.entries) {
    if (entry.key == kHistogramParameter && entry.value.kind == Tree::Kind::kScalar) {
      files.emplace(entry.value.text, entry.value.where);
    }
    CollectFiles(entry.value, files);
  }
}

// Files that do not exist are left out: the parser then says where they are named, and what a
// histogram may be.
absl::Status ReadNamedFiles(const std::filesystem::path& folder, SuiteSource& source) {
  Diagnostics unused(source.file_name);
  const std::optional<Tree> root = ReadYaml(source.text, unused);
  if (!root.has_value()) return absl::OkStatus();
  std::map<std::string, Location> names;
  CollectFiles(*root, names);
  Diagnostics diagnostics(source.file_name);
  size_t bytes = 0;
  for (const auto& [name, where] : names) {
    const std::filesystem::path path = folder / name;
    std::error_code error;
    if (!std::filesystem::exists(path, error)) continue;
    absl::StatusOr<std::string> text = ReadFile(path.string());
    if (!text.ok()) {
      diagnostics.Add(where,
                      fmt::format("histogram: {}; it must be a JSON file of at most {} bytes",
                                  std::string(text.status().message()), kMostBytes));
      continue;
    }
    bytes += name.size() + text->size();
    if (bytes > kMostBytesOfFiles) {
      diagnostics.Add(where, fmt::format("with histogram {} the files that the suite names have "
                                         "more than {} bytes together; use fewer or smaller ones",
                                         Quote(name), kMostBytesOfFiles));
      break;
    }
    source.files.emplace(name, *std::move(text));
  }
  return diagnostics.ToStatus();
}

}  // namespace

absl::StatusOr<SuiteSource> LoadSuite(std::string_view path_or_name) {
  // `-` by the name under which this program, and a message's reader, can open it again.
  const std::string path(path_or_name == "-" ? kStandardInput : path_or_name);
  std::error_code error;
  if (!path.empty() && std::filesystem::exists(path, error)) {
    absl::StatusOr<std::string> text = ReadFile(path);
    if (!text.ok()) return text.status();
    SuiteSource source{.file_name = path, .text = *std::move(text)};
    const std::filesystem::path folder =
        OpenDescriptor(path).has_value() ? "." : std::filesystem::path(path).parent_path();
    if (absl::Status status = ReadNamedFiles(folder, source); !status.ok()) return status;
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
