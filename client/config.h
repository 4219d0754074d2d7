// The configuration file of lcab-client: texts by key, for options that are the same every day.

#ifndef LCAB_CLIENT_CONFIG_H_
#define LCAB_CLIENT_CONFIG_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lcab::client {

// $LCAB_CONFIG, else $XDG_CONFIG_HOME/lcab/config.yaml, else ~/.config/lcab/config.yaml; empty
// where none of these variables is set.
std::string ConfigPath();

// The file's texts by key; empty where there is no file. InvalidArgument names file, line and what
// is wrong: not a map of texts, a key that is none of `known`, or no file though LCAB_CONFIG names
// one.
absl::StatusOr<std::map<std::string, std::string>> ReadConfig(
    const std::string& path, const std::vector<std::string>& known);

}  // namespace lcab::client

#endif  // LCAB_CLIENT_CONFIG_H_
