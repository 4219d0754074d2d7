// Reads a user's histogram of document lengths from JSON, in one pass over the text: no document is
// built, so that nesting and size cost nothing, and what is wrong is told with its line.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "attention/documents.h"
#include "attention/tokens.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace lcab {
namespace {

constexpr size_t kMostQuoted = 40;

// "[begin,end)" with blanks allowed around the numbers; nothing for other texts.
std::optional<Interval> ParseBin(const std::string& text) {
  long long begin = 0, end = 0;
  char open = 0, close = 0;
  int read = 0;
  if (std::sscanf(text.c_str(), " %c %18lld , %18lld %c %n", &open, &begin, &end, &close, &read) !=
          4 ||
      open != '[' || close != ')' || static_cast<size_t>(read) != text.size()) {
    return std::nullopt;
  }
  return Interval{begin, end};
}

// Collects bins; the first fault ends the reading.
class HistogramReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HistogramReader(std::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<LengthBin>> Finish() {
    if (!fault_.empty()) return absl::InvalidArgumentError(fault_);
    return std::move(bins_);
  }

  bool start_object(std::size_t) override {
    if (depth_ > 0) return NoWeight();
    ++depth_;
    return true;
  }
  bool end_object() override { return true; }
  bool key(string_t& text) override {
    key_ = text.substr(0, kMostQuoted);
    const std::optional<Interval> range = ParseBin(text);
    if (!range) {
      return Refuse(fmt::format("bin '{}': write it as \"[begin,end)\" with two integers", key_));
    }
    if (!keys_.insert(text).second) return Refuse(fmt::format("bin '{}' is there twice", key_));
    bin_ = {range->begin, range->end, 0};
    return true;
  }
  bool number_integer(number_integer_t value) override {
    return AddWeight(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return AddWeight(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return AddWeight(value); }
  bool null() override { return NoWeight(); }
  bool boolean(bool) override { return NoWeight(); }
  bool string(string_t&) override { return NoWeight(); }
  bool binary(binary_t&) override { return NoWeight(); }
  bool start_array(std::size_t) override { return NoWeight(); }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const size_t read = std::min(position, text_.size());
    const auto line = std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(read), '\n');
    // The library tells a number beyond the largest double from a text that is no JSON.
    const bool too_large = dynamic_cast<const nlohmann::detail::out_of_range*>(&error) != nullptr;
    return Refuse(fmt::format("line {}: {}; {}", line + 1,
                              too_large ? "a number is too large" : "this is not JSON", kForm));
  }

 private:
  static constexpr std::string_view kForm =
      "a length histogram must be a JSON object of {\"[begin,end)\": weight, ...}";

  bool Refuse(std::string fault) {
    fault_ = std::move(fault);
    return false;
  }
  bool NoWeight() {
    if (depth_ == 0) return Refuse(std::string(kForm));
    return Refuse(fmt::format("bin '{}': the weight must be a number", key_));
  }
  bool AddWeight(double weight) {
    if (depth_ == 0) return NoWeight();
    bin_.weight = weight;
    bins_.push_back(bin_);
    return true;
  }

  std::string_view text_;
  int depth_ = 0;
  std::string key_;  // of the value to come, cut for messages
  std::set<std::string> keys_;
  LengthBin bin_;
  std::vector<LengthBin> bins_;
  std::string fault_;
};

}  // namespace

absl::StatusOr<std::vector<LengthBin>> ParseLengthHistogram(std::string_view json) {
  HistogramReader reader(json);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  absl::StatusOr<std::vector<LengthBin>> bins = reader.Finish();
  if (!bins.ok()) return bins.status();
  if (absl::Status status = Validate(*bins); !status.ok()) return status;
  return bins;
}

}  // namespace lcab
