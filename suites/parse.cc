#include "suites/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attention/documents.h"
#include "attention/masks.h"
#include "attention/softmax_range.h"
#include "suites/axes.h"
#include "suites/components.h"
#include "suites/conversion.h"
#include "suites/fields.h"
#include "suites/format.h"
#include "suites/measure.h"
#include "suites/scalars.h"
#include "suites/yaml_tree.h"

namespace lcab::suites {
namespace {

constexpr int64_t kMostHeads = 1 << 16;
constexpr int64_t kMostHeadDim = 1024;
constexpr int64_t kMostRanks = 4096;
constexpr size_t kMostNameBytes = 64;
constexpr double kMostReal = std::numeric_limits<double>::max();
constexpr std::string_view kSoftmax = "softmax";

// A histogram in a file, as the parameter that it stands for: [begin, end, weight] a bin.
absl::StatusOr<Value> ReadHistogram(std::string_view parameter, const std::string& file,
                                    const SuiteSource& source) {
  if (parameter != kHistogramParameter) {
    return absl::InvalidArgumentError(
        fmt::format("{} is {}; it must be a list", parameter, Quote(file)));
  }
  const auto found = source.files.find(file);
  if (found == source.files.end()) {
    return absl::InvalidArgumentError(
        fmt::format("there is no file {}; a histogram is a list of [begin, end, weight], or the "
                    "name of a JSON file, from the folder of the suite",
                    Quote(file)));
  }
  absl::StatusOr<std::vector<LengthBin>> bins = ParseLengthHistogram(found->second);
  if (!bins.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", Quote(file), std::string(bins.status().message())));
  }
  Value::List list;
  for (const LengthBin& bin : *bins) {
    list.push_back(Value{Value::List{Value{bin.begin}, Value{bin.end}, Value{bin.weight}}});
  }
  return Value{std::move(list)};
}

// The kinds of component, as ReadComponents takes them. Source and catalogue must outlive them.
ComponentKind MaskKind(const SuiteSource& source) {
  return {.word = "mask",
          .names = MaskNames(),
          .find =
              [](std::string_view name) {
                const MaskType* type = FindMaskType(name);
                return type == nullptr
                           ? std::nullopt
                           : std::optional(ComponentType{type->parameters, type->random});
              },
          .read_file =
              [&source](std::string_view parameter, const std::string& file) {
                return ReadHistogram(parameter, file, source);
              }};
}

ComponentKind KernelKind(const Catalogue& catalogue) {
  return {.word = "kernel",
          .names = catalogue.KernelNames(),
          .note = catalogue.other_kernels(),
          .find = [&catalogue](std::string_view name) {
            const KernelEntry* entry = catalogue.FindKernel(name);
            return entry == nullptr ? std::nullopt
                                    : std::optional(ComponentType{.parameters = entry->parameters});
          }};
}

ComponentKind StrategyKind(const Catalogue& catalogue) {
  return {.word = "strategy",
          .names = catalogue.StrategyNames(),
          .find = [&catalogue](std::string_view name) {
            const cp::Strategy* strategy = catalogue.FindStrategy(name);
            return strategy == nullptr
                       ? std::nullopt
                       : std::optional(ComponentType{.parameters = strategy->parameters()});
          }};
}

// A value of an axis that is one scalar, as `{key: value}` for Fields.
Tree AsMap(std::string_view key, const Tree& value) {
  return {.kind = Tree::Kind::kMap,
          .where = value.where,
          .entries = {{.key = std::string(key), .where = value.where, .value = value}}};
}

Shape ReadShape(const Tree& tree, Diagnostics& diagnostics) {
  Fields fields(tree, kShapeMap, diagnostics);
  Shape shape;
  fields.Require("q_heads");
  fields.Read("q_heads", 1, kMostHeads, &shape.q_heads);
  shape.kv_heads = shape.q_heads;
  fields.Read("kv_heads", 1, kMostHeads, &shape.kv_heads);
  if (shape.kv_heads > 0 && shape.q_heads % shape.kv_heads != 0) {
    diagnostics.Add(
        fields.Where("q_heads"),
        fmt::format("q_heads is {0} and kv_heads is {1}: every kv head serves the same number of "
                    "query heads, so {1} must divide q_heads; {2} would do",
                    shape.q_heads, shape.kv_heads,
                    (shape.q_heads + shape.kv_heads - 1) / shape.kv_heads * shape.kv_heads));
  }
  int64_t head_dim = 0;
  fields.Read("head_dim", 1, kMostHeadDim, &head_dim);
  shape.qk_head_dim = shape.v_head_dim = head_dim;
  fields.Read("qk_head_dim", 1, kMostHeadDim, &shape.qk_head_dim);
  fields.Read("v_head_dim", 1, kMostHeadDim, &shape.v_head_dim);
  const bool one = tree.Find("head_dim") != nullptr;
  const bool qk = tree.Find("qk_head_dim") != nullptr;
  const bool v = tree.Find("v_head_dim") != nullptr;
  if (tree.kind == Tree::Kind::kMap && (one ? (qk || v) : !(qk && v))) {
    diagnostics.Add(tree.where,
                    "a shape needs either head_dim, or both qk_head_dim and v_head_dim");
  }
  std::string dtype(Name(shape.dtype));
  fields.Read("dtype", {std::string(Name(DType::kFloat32)), std::string(Name(DType::kBFloat16))},
              &dtype);
  shape.dtype = ParseDType(dtype).value_or(shape.dtype);
  return shape;
}

// A finding of what another folder found.
void Refuse(const absl::Status& status, Location where, Diagnostics& diagnostics) {
  if (!status.ok()) diagnostics.Add(where, std::string(status.message()));
}

Softmax ReadOperator(const Tree& tree, Diagnostics& diagnostics) {
  const Tree map = tree.kind == Tree::Kind::kScalar ? AsMap("name", tree) : tree;
  Fields fields(map, kOperatorMap, diagnostics);
  fields.Require("name");
  std::string name(kSoftmax);
  fields.Read("name", &name);
  if (name != kSoftmax) {
    diagnostics.Add(fields.Where("name"), UnknownName("operator", name, {std::string(kSoftmax)}));
  }
  Softmax softmax;
  if (map.Find("scale") != nullptr) {
    double scale = 0;
    fields.Read("scale", -kMostReal, kMostReal, &scale);
    softmax.scale = scale;
    Refuse(Validate(Softmax{.scale = scale}), fields.Where("scale"), diagnostics);
  }
  fields.Read("softcap", -kMostReal, kMostReal, &softmax.softcap);
  Refuse(Validate(Softmax{.softcap = softmax.softcap}), fields.Where("softcap"), diagnostics);
  return softmax;
}

Length ReadLength(const Tree& tree, Diagnostics& diagnostics) {
  Length length;
  if (tree.kind != Tree::Kind::kMap) {
    const Tree map = AsMap("seq_len", tree);
    Fields fields(map, "a length", {"seq_len"}, diagnostics);
    fields.Read("seq_len", 1, kMostTokens, &length.q_tokens);
    length.k_tokens = length.q_tokens;
    return length;
  }
  Fields fields(tree, kLengthMap, diagnostics);
  length.per_rank = tree.Find("per_rank") != nullptr;
  const bool q = tree.Find("q_tokens") != nullptr;
  const bool k = tree.Find("k_tokens") != nullptr;
  if (length.per_rank ? (q || k) : !(q && k)) {
    diagnostics.Add(tree.where,
                    "seq_len is a number of tokens, or {per_rank: 8K}, or, for queries and keys of "
                    "different numbers, {q_tokens: 160, k_tokens: 96}");
  }
  if (length.per_rank) {
    fields.Read("per_rank", 1, kMostTokens, &length.q_tokens);
    length.k_tokens = length.q_tokens;
  } else {
    fields.Read("q_tokens", 0, kMostTokens, &length.q_tokens);
    fields.Read("k_tokens", 0, kMostTokens, &length.k_tokens);
  }
  return length;
}

// The axis that a key of a matrix gives, `read` once for each of its values.
template <typename T, typename Read>
Axis<T> ReadAxis(const Tree& tree, Diagnostics& diagnostics, const Read& read) {
  Axis<T> axis;
  for (const Tree& one : Alternatives(tree, diagnostics)) {
    axis.push_back({.value = read(one), .where = one.where});
  }
  return axis;
}

class MatrixReader {
 public:
  MatrixReader(const Tree& tree, const v1::Measure& measure, const SuiteSource& source,
               const Catalogue& catalogue, Diagnostics& diagnostics)
      : tree_(tree),
        fields_(tree, kMatrixMap, diagnostics),
        measure_(measure),
        source_(source),
        catalogue_(catalogue),
        diagnostics_(diagnostics) {}

  Matrix Read() {
    Matrix matrix{.where = tree_.where};
    if (tree_.kind != Tree::Kind::kMap) return matrix;
    const auto with = [&](auto read) {
      return [this, read](const Tree& tree) { return read(tree, diagnostics_); };
    };
    if (const Tree* tree = fields_.Require("shape")) {
      matrix.shapes = ReadAxis<Shape>(*tree, diagnostics_, with(ReadShape));
    }
    if (const Tree* tree = fields_.Require("seq_len")) {
      matrix.lengths = ReadAxis<Length>(*tree, diagnostics_, with(ReadLength));
    }
    if (const Tree* tree = fields_.Require("mask")) {
      matrix.masks = ReadComponents(*tree, MaskKind(source_), diagnostics_);
    }
    if (const Tree* tree = fields_.Require("kernel")) {
      matrix.kernels = ReadComponents(*tree, KernelKind(catalogue_), diagnostics_);
    }
    ReadOptional("operator", with(ReadOperator), Softmax{}, matrix.operators);
    ReadStrategies(matrix);
    ReadOptional(
        "pass", [this](const Tree& tree) { return ReadPass(tree); }, Pass::kForward, matrix.passes);
    ReadOptional(
        "ranks", [this](const Tree& tree) { return ReadRanks("ranks", tree); }, 1, matrix.ranks);
    ReadOptional(
        "ranks_per_device",
        [this](const Tree& tree) { return ReadRanks("ranks_per_device", tree); }, 1,
        matrix.ranks_per_device);
    ReadOptional(
        "overlap", [this](const Tree& tree) { return ReadOverlap(tree); }, true, matrix.overlaps);
    ReadOptional(
        "measure", [this](const Tree& tree) { return ReadMeasure(tree, measure_, diagnostics_); },
        measure_, matrix.measures);
    return matrix;
  }

 private:
  template <typename T, typename ReadOne>
  void ReadOptional(std::string_view key, const ReadOne& read, T default_value, Axis<T>& axis) {
    if (const Tree* tree = fields_.Find(key)) {
      axis = ReadAxis<T>(*tree, diagnostics_, read);
    } else {
      axis = {{.value = std::move(default_value), .where = tree_.where}};
    }
  }

  void ReadStrategies(Matrix& matrix) {
    Tree single{.kind = Tree::Kind::kScalar, .where = tree_.where, .text = "single"};
    const Tree* given = fields_.Find("strategy");
    matrix.strategies =
        ReadComponents(given == nullptr ? single : *given, StrategyKind(catalogue_), diagnostics_);
  }

  Pass ReadPass(const Tree& tree) {
    const Tree map = AsMap("pass", tree);
    Fields fields(map, "a pass", {"pass"}, diagnostics_);
    std::string name;
    fields.Read("pass", {std::string(Name(Pass::kForward)), std::string(Name(Pass::kBackward))},
                &name);
    return name == Name(Pass::kBackward) ? Pass::kBackward : Pass::kForward;
  }

  int32_t ReadRanks(const std::string& key, const Tree& tree) {
    const Tree map = AsMap(key, tree);
    Fields fields(map, key, {key}, diagnostics_);
    int64_t ranks = 1;
    fields.Read(key, 1, kMostRanks, &ranks);
    return static_cast<int32_t>(ranks);
  }

  bool ReadOverlap(const Tree& tree) {
    const Tree map = AsMap("overlap", tree);
    Fields fields(map, "overlap", {"overlap"}, diagnostics_);
    bool overlap = true;
    fields.Read("overlap", &overlap);
    return overlap;
  }

  const Tree& tree_;
  Fields fields_;
  const v1::Measure& measure_;
  const SuiteSource& source_;
  const Catalogue& catalogue_;
  Diagnostics& diagnostics_;
};

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Names become parts of file names, of tables and of command lines, so what means something there
// (`..`, a leading dash) is none.
bool IsSuiteName(std::string_view name) {
  if (name.empty() || name.size() > kMostNameBytes || !IsLetterOrDigit(name.front())) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return IsLetterOrDigit(c) || c == '_' || c == '-' || c == '.'; });
}

void ReadName(Fields& fields, Suite& suite, Diagnostics& diagnostics) {
  const Tree* tree = fields.Require("name");
  if (tree == nullptr) return;
  fields.Read("name", &suite.name);
  if (tree->kind == Tree::Kind::kScalar && !IsSuiteName(suite.name)) {
    diagnostics.Add(tree->where,
                    fmt::format("name is {}; it must be 1 to {} letters, digits, '_', '-' and '.', "
                                "and begin with a letter or digit",
                                Quote(suite.name), kMostNameBytes));
  }
}

}  // namespace

absl::StatusOr<Suite> ParseSuite(const SuiteSource& source, const Catalogue& catalogue) {
  Diagnostics diagnostics(source.file_name);
  const std::optional<Tree> root = ReadYaml(source.text, diagnostics);
  if (!root.has_value()) return diagnostics.ToStatus();
  Suite suite{.file_name = source.file_name};
  Fields fields(*root, kSuiteMap, diagnostics);
  ReadName(fields, suite, diagnostics);
  fields.Read("description", &suite.description);
  int64_t seed = 1;
  fields.Read("seed", 0, std::numeric_limits<int64_t>::max(), &seed);
  suite.seed = static_cast<uint64_t>(seed);
  v1::Measure measure = DefaultMeasure();
  if (const Tree* tree = fields.Find("measure")) {
    measure = ReadMeasure(*tree, measure, diagnostics);
  }
  if (const Tree* tree = fields.Require("matrices")) {
    if (tree->kind != Tree::Kind::kList || tree->list.empty()) {
      diagnostics.Add(tree->where,
                      "matrices is a list of at least one matrix: start one with "
                      "`- shape: {q_heads: 8, head_dim: 64}`");
    }
    for (const Tree& matrix : tree->list) {
      suite.matrices.push_back(
          MatrixReader(matrix, measure, source, catalogue, diagnostics).Read());
    }
  }
  if (!diagnostics.empty()) return diagnostics.ToStatus();
  return suite;
}

}  // namespace lcab::suites
