#include "device/cuda/vendor_library.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// A folder that is there and empty.
fs::path Scratch(const std::string& name) {
  const fs::path path = fs::path(testing::TempDir()) / ("vendor_library_" + name);
  fs::remove_all(path);
  fs::create_directories(path);
  return path;
}

std::vector<std::string> FoldersWith(const std::map<std::string, std::string>& variables,
                                     const std::string& root) {
  return VendorLibraryFolders(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::string() : found->second;
      },
      root);
}

TEST(VendorLibrary, FunctionsOfALibraryThatTheLoaderFindsCanBeCalled) {
  const absl::StatusOr<VendorLibrary> library =
      VendorLibrary::Open({.name = "libm", .sonames = {"libm.so.6"}});
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_THAT(library->path(), HasSubstr("/libm.so.6"));
  const auto cosine = library->Symbol<double(double)>("cos");
  ASSERT_TRUE(cosine.ok()) << cosine.status();
  EXPECT_EQ((*cosine)(0.0), 1.0);
}

TEST(VendorLibrary, AMissingFunctionIsNamedWithTheFile) {
  const absl::StatusOr<VendorLibrary> library =
      VendorLibrary::Open({.name = "libm", .sonames = {"libm.so.6"}});
  ASSERT_TRUE(library.ok()) << library.status();
  const absl::Status status = library->Symbol<void()>("no_such_function").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("no_such_function"), HasSubstr(library->path())));
}

TEST(VendorLibrary, ALaterNameServesWhereAnEarlierOneIsAbsent) {
  EXPECT_TRUE(VendorLibrary::Open({.name = "libm", .sonames = {"libnone.so.1", "libm.so.6"}}).ok());
}

TEST(VendorLibrary, AbsenceNamesEveryPlaceAndWhatToInstall) {
  const fs::path one = Scratch("one");
  const fs::path two = Scratch("two");
  const absl::Status status = VendorLibrary::Open({.name = "cuNone",
                                                   .sonames = {"libcunone.so.9"},
                                                   .install = "the package nvidia-cunone",
                                                   .folders = {one, "", two}})
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cuNone"), HasSubstr("libcunone.so.9"), HasSubstr(one.string()),
                    HasSubstr(two.string()), HasSubstr("where the loader looks"),
                    HasSubstr("nvidia-cunone"), HasSubstr("LCAB_LIBRARY_PATH")));
}

TEST(VendorLibrary, AFileThatDoesNotLoadIsPassedOverAndItsReasonTold) {
  const fs::path broken = Scratch("broken");
  std::ofstream(broken / "libm.so.6") << "not a library";
  const absl::StatusOr<VendorLibrary> found =
      VendorLibrary::Open({.name = "libm", .sonames = {"libm.so.6"}, .folders = {broken, ""}});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_NE(found->path(), (broken / "libm.so.6").string());
  const absl::Status alone =
      VendorLibrary::Open({.name = "libm", .sonames = {"libm.so.6"}, .folders = {broken}}).status();
  EXPECT_THAT(std::string(alone.message()), AllOf(HasSubstr(broken.string()), HasSubstr("(")));
}

TEST(VendorLibraryFolders, WhatAPersonNamedComesFirstThenTheLoaderThenTheUsualPlaces) {
  const fs::path root = Scratch("root");
  fs::create_directories(root / "usr/local/cuda/lib64");
  EXPECT_THAT(FoldersWith({{"LCAB_LIBRARY_PATH", "/mine::/and/this"}}, root),
              ElementsAre("/mine", "/and/this", "", root / "usr/local/cuda/lib64"));
}

TEST(VendorLibraryFolders, PackagesOfPythonEnvironmentsAreFound) {
  const fs::path root = Scratch("python");
  const fs::path active = root / "venv/lib/python3.12/site-packages/nvidia/cudnn/lib";
  const fs::path on_path = root / "opt/lib/python3.11/site-packages/nvidia/cu13/lib";
  const fs::path linked = root / "real/lib/python3.11/dist-packages/nvidia/nccl/lib";
  for (const fs::path& folder : {active, on_path, linked, root / "opt/bin", root / "real/bin"}) {
    fs::create_directories(folder);
  }
  std::ofstream(root / "real/bin/python3") << "";
  fs::create_symlink(root / "real/bin/python3", root / "opt/bin/python3");
  EXPECT_THAT(FoldersWith({{"VIRTUAL_ENV", root / "venv"},
                           {"PATH", "/nowhere:" + (root / "opt/bin").string()}},
                          root),
              ElementsAre("", active, on_path, fs::canonical(linked)));
}

}  // namespace
}  // namespace lcab
