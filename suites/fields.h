// A map whose keys are known beforehand: reads its values into variables, and finds unknown keys,
// values of the wrong form and values out of range.

#ifndef LCAB_SUITES_FIELDS_H_
#define LCAB_SUITES_FIELDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "suites/diagnostics.h"
#include "suites/format.h"
#include "suites/yaml_tree.h"

namespace lcab::suites {

// Each Read leaves `*to` alone, which is the default, where the key is absent, and adds a finding
// where its value does not fit. Limits are inclusive.
class Fields {
 public:
  // Finds keys that are none of `known`, and a tree that is no map. `what` is what the map
  // describes, as "a shape". Tree and diagnostics must outlive this object.
  Fields(const Tree& map, std::string_view what, const std::vector<std::string>& known,
         Diagnostics& diagnostics);
  Fields(const Tree& map, const FormatMap& format, Diagnostics& diagnostics)
      : Fields(map, format.what, {format.keys.begin(), format.keys.end()}, diagnostics) {}

  // nullptr where the key is absent.
  const Tree* Find(std::string_view key) const { return map_.Find(key); }
  // The same, with a finding that the key must be there.
  const Tree* Require(std::string_view key);
  // Where the key's value stands, or the map where the key is absent.
  Location Where(std::string_view key) const;

  void Read(std::string_view key, int64_t minimum, int64_t maximum, int64_t* to);
  void Read(std::string_view key, double minimum, double maximum, double* to);
  void Read(std::string_view key, absl::Duration minimum, absl::Duration maximum,
            absl::Duration* to);
  void Read(std::string_view key, bool* to);
  void Read(std::string_view key, std::string* to);
  // A text that is one of `choices`.
  void Read(std::string_view key, const std::vector<std::string>& choices, std::string* to);

 private:
  // The scalar under `key`, or nullptr, with a finding unless the key is absent. `form` is what it
  // should look like; numbers must not be quoted.
  const Tree* Scalar(std::string_view key, std::string_view form, bool quoted_is_well);
  void Refuse(std::string_view key, std::string_view form);

  const Tree& map_;
  std::string what_;
  Diagnostics& diagnostics_;
};

}  // namespace lcab::suites

#endif  // LCAB_SUITES_FIELDS_H_
