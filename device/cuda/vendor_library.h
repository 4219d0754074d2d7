// A library of the device's vendor, opened when the program runs: one binary serves machines that
// have it and machines that do not, and says on the latter what is missing.
//
//   absl::StatusOr<VendorLibrary> nvml = VendorLibrary::Open(
//       {.name = "NVML", .sonames = {"libnvidia-ml.so.1"}, .install = "NVIDIA's driver"});
//   absl::StatusOr<int (*)()> init = nvml->Symbol<int()>("nvmlInit_v2");

#ifndef LCAB_DEVICE_CUDA_VENDOR_LIBRARY_H_
#define LCAB_DEVICE_CUDA_VENDOR_LIBRARY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lcab {

struct VendorLibraryOptions {
  std::string name;                  // as people call it: "cuDNN"
  std::vector<std::string> sonames;  // in order of preference: "libcudnn.so.9"
  std::string install;  // what provides it, for the error: "pip install nvidia-cudnn-cu13"
  // Where to look; empty: VendorLibraryFolders() of this process.
  std::vector<std::string> folders;
};

// Once opened it stays for the life of the process: libraries of this kind start threads and
// register at-exit work, and do not survive being closed.
class VendorLibrary {
 public:
  // NotFound lists every place that was looked at, why a file that was there could not be loaded,
  // and what to install.
  static absl::StatusOr<VendorLibrary> Open(const VendorLibraryOptions& options);

  // A function of the library by its type, as in Symbol<int(void*)>("f"). NotFound names the
  // library's file: it is older or newer than what was asked of it.
  template <typename Function>
  absl::StatusOr<Function*> Symbol(const char* name) const {
    absl::StatusOr<void*> address = Address(name);
    if (!address.ok()) return address.status();
    return reinterpret_cast<Function*>(*address);
  }

  // The file that the loader took.
  const std::string& path() const { return path_; }

 private:
  VendorLibrary(std::string name, std::string path, void* handle)
      : name_(std::move(name)), path_(std::move(path)), handle_(handle) {}
  absl::StatusOr<void*> Address(const char* symbol) const;

  std::string name_;
  std::string path_;
  void* handle_;
};

// Folders that are looked at, in order, without those that do not exist: each of LCAB_LIBRARY_PATH
// (separated by colons); "" for the loader's own search; the CUDA toolkit's and the driver's usual
// places; then those of NVIDIA's packages in Python environments (VIRTUAL_ENV, CONDA_PREFIX, and
// that of the python3 on PATH). `variable` gives the value of an environment variable, or "".
// `root` stands before the usual places, for tests.
std::vector<std::string> VendorLibraryFolders(
    const std::function<std::string(const char* name)>& variable, const std::string& root = "");
std::vector<std::string> VendorLibraryFolders();

}  // namespace lcab

#endif  // LCAB_DEVICE_CUDA_VENDOR_LIBRARY_H_
