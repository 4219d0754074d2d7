#include "device/cuda/vendor_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace lcab {
namespace {

namespace fs = std::filesystem;

// The toolkit's, the driver's in containers and under WSL, Debian's, Fedora's.
constexpr std::string_view kUsualFolders[] = {
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/lib",
    "/usr/local/nvidia/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/local/lib",
    "/opt/nvidia/lib64",
    "/usr/lib/wsl/lib",
};

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t colon = std::min(text.find(':'), text.size());
    if (colon > 0) parts.emplace_back(text.substr(0, colon));
    text.remove_prefix(std::min(colon + 1, text.size()));
  }
  return parts;
}

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// Names of what is in a folder, sorted; none when it cannot be read.
std::vector<fs::path> Children(const fs::path& folder) {
  std::vector<fs::path> children;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    children.push_back(it->path());
  }
  std::sort(children.begin(), children.end());
  return children;
}

class FolderList {
 public:
  void Add(const fs::path& folder) {
    const std::string name = folder.string();
    if (std::find(folders_.begin(), folders_.end(), name) == folders_.end()) {
      folders_.push_back(name);
    }
  }
  void AddIfThere(const fs::path& folder) {
    if (IsFolder(folder)) Add(folder);
  }
  // <prefix>/lib/python3*/{site,dist}-packages/nvidia/*/lib, as NVIDIA's wheels unpack.
  void AddPythonPackages(const fs::path& prefix) {
    for (const fs::path& python : Children(prefix / "lib")) {
      if (python.filename().string().rfind("python3", 0) != 0) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const fs::path& package : Children(python / packages / "nvidia")) {
          AddIfThere(package / "lib");
        }
      }
    }
  }
  std::vector<std::string> Take() { return std::move(folders_); }

 private:
  std::vector<std::string> folders_;
};

std::string PathOf(void* handle, const std::string& opened) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr ||
      *map->l_name == '\0') {
    return opened;
  }
  return map->l_name;
}

}  // namespace

std::vector<std::string> VendorLibraryFolders(
    const std::function<std::string(const char* name)>& variable, const std::string& root) {
  FolderList list;
  // What a person named is kept also when it is not there: the error then shows the mistake.
  for (const std::string& folder : Split(variable("LCAB_LIBRARY_PATH"))) list.Add(folder);
  list.Add("");
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string home = variable(name); !home.empty()) {
      list.AddIfThere(fs::path(home) / "lib64");
    }
  }
  for (const std::string_view folder : kUsualFolders) list.AddIfThere(root + std::string(folder));
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const std::string prefix = variable(name); !prefix.empty()) list.AddPythonPackages(prefix);
  }
  for (const std::string& folder : Split(variable("PATH"))) {
    const fs::path python = fs::path(folder) / "python3";
    std::error_code error;
    if (!fs::exists(python, error)) continue;
    // In a virtual environment python3 is a link to another's; both have packages.
    list.AddPythonPackages(python.parent_path().parent_path());
    const fs::path real = fs::canonical(python, error);
    if (!error) list.AddPythonPackages(real.parent_path().parent_path());
    break;
  }
  list.AddPythonPackages(root + "/usr/local");
  return list.Take();
}

std::vector<std::string> VendorLibraryFolders() {
  return VendorLibraryFolders([](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  });
}

absl::StatusOr<VendorLibrary> VendorLibrary::Open(const VendorLibraryOptions& options) {
  std::vector<std::string> folders = options.folders;
  if (folders.empty()) folders = VendorLibraryFolders();
  std::vector<std::string> looked;
  for (const std::string& folder : folders) {
    looked.push_back(folder.empty() ? "where the loader looks" : folder);
    for (const std::string& soname : options.sonames) {
      std::error_code error;
      const std::string file = folder.empty() ? soname : (fs::path(folder) / soname).string();
      if (!folder.empty() && !fs::exists(file, error)) continue;
      if (void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr) {
        return VendorLibrary(options.name, PathOf(handle, file), handle);
      }
      // That the loader finds nothing is no news; a file that is there and does not load is.
      const char* reason = dlerror();
      if (!folder.empty() && reason != nullptr) looked.back() += fmt::format(" ({})", reason);
    }
  }
  return absl::NotFoundError(fmt::format(
      "there is no {} ({}): looked in {}; install {}, or name its folder in LCAB_LIBRARY_PATH",
      options.name, fmt::join(options.sonames, ", "), fmt::join(looked, ", "), options.install));
}

absl::StatusOr<void*> VendorLibrary::Address(const char* symbol) const {
  if (void* address = dlsym(handle_, symbol); address != nullptr) return address;
  return absl::NotFoundError(
      fmt::format("{} at {} has no {}: another version of it is needed", name_, path_, symbol));
}

}  // namespace lcab
