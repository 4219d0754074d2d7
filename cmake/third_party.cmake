# Everything that is not ours, as Debian 12 packages it (scripts/deps.sh installs it).

find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
# gRPC's package file needs these targets and looks for them in its own way; ours come first.
find_package(Protobuf MODULE REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(hwy CONFIG REQUIRED)
find_package(Gloo CONFIG REQUIRED)
find_package(SQLite3 MODULE REQUIRED)
find_package(SQLiteCpp CONFIG REQUIRED)
find_package(zstd CONFIG REQUIRED)
find_package(ZLIB MODULE REQUIRED)

# Debian ships cpp-httplib compiled, with a pkg-config file only; its definitions must be ours too.
find_package(PkgConfig REQUIRED)
pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)
add_library(httplib::httplib INTERFACE IMPORTED)
target_link_libraries(httplib::httplib INTERFACE PkgConfig::httplib Threads::Threads)

find_package(GTest CONFIG QUIET)
# A machine that only builds and runs needs none of the test packages.
option(LCAB_TESTS "Build the tests" ${GTest_FOUND})
if(LCAB_TESTS)
  find_package(GTest CONFIG REQUIRED)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
endif()
