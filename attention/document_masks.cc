// Masks over documents that are packed one behind the other. What each adds to the others is in
// its Add function; the packing is common to all.

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/status/status.h"
#include "attention/documents.h"
#include "attention/draws.h"
#include "attention/mask_families.h"
#include "fmt/format.h"

namespace lcab {
namespace {

constexpr double kMostTokens = static_cast<double>(Mask::kMaxTokens);
constexpr int64_t kMostBlocksOfADocument = 8;

// The rows and the keys of one document.
struct Document {
  Interval q, k;
};

absl::StatusOr<std::vector<int64_t>> ReadCounts(const Options& options, std::string_view name,
                                                int64_t minimum) {
  std::vector<int64_t> counts;
  for (const Value& value : GetList(options, name)) {
    const auto* count = std::get_if<int64_t>(&value.data);
    if (count == nullptr || *count < minimum || *count > Mask::kMaxTokens) {
      return absl::InvalidArgumentError(
          fmt::format("'{}' holds {}; each of its entries must be an integer in {}..{}", name,
                      ValueText(value), minimum, Mask::kMaxTokens));
    }
    counts.push_back(*count);
  }
  return counts;
}

absl::StatusOr<std::vector<LengthBin>> ReadHistogram(const Value::List& list) {
  std::vector<LengthBin> bins;
  for (const Value& entry : list) {
    const auto* bin = std::get_if<Value::List>(&entry.data);
    const int64_t* begin = nullptr;
    const int64_t* end = nullptr;
    std::optional<double> weight;
    if (bin != nullptr && bin->size() == 3) {
      begin = std::get_if<int64_t>(&(*bin)[0].data);
      end = std::get_if<int64_t>(&(*bin)[1].data);
      if (const auto* real = std::get_if<double>(&(*bin)[2].data)) weight = *real;
      if (const auto* integer = std::get_if<int64_t>(&(*bin)[2].data)) {
        weight = static_cast<double>(*integer);
      }
    }
    if (begin == nullptr || end == nullptr || !weight) {
      return absl::InvalidArgumentError(
          fmt::format("'histogram' holds {}; each entry must be [begin, end, weight] with two "
                      "integers and a number",
                      ValueText(entry)));
    }
    bins.push_back({*begin, *end, *weight});
  }
  if (absl::Status status = Validate(bins); !status.ok()) return status;
  return bins;
}

// The share of uniform documents in "40:60", which is 0.6.
absl::StatusOr<double> ReadMix(std::string_view text) {
  int64_t first = 0, second = 0;
  const char* end = text.data() + text.size();
  const auto [colon, error] = std::from_chars(text.data(), end, first);
  bool parsed = error == std::errc() && colon != end && *colon == ':';
  if (parsed) {
    const auto [rest, second_error] = std::from_chars(colon + 1, end, second);
    parsed = second_error == std::errc() && rest == end;
  }
  if (!parsed || first < 0 || first > 100 || second != 100 - first) {
    return absl::InvalidArgumentError(fmt::format(
        "'mix' is \"{}\"; it must be two percentages that add up to 100, as \"40:60\"", text));
  }
  return static_cast<double>(second) / 100;
}

// Documents one behind the other; what is left of the tokens belongs to none.
absl::StatusOr<std::vector<Document>> Pack(const MaskContext& context,
                                           const std::vector<int64_t>& q_lengths,
                                           const std::vector<int64_t>& k_lengths) {
  if (q_lengths.size() != k_lengths.size()) {
    return absl::InvalidArgumentError(
        fmt::format("there are {} query lengths and {} key lengths; each document needs one of "
                    "both (0 is allowed)",
                    q_lengths.size(), k_lengths.size()));
  }
  std::vector<Document> documents;
  int64_t q = 0, k = 0;
  for (size_t d = 0; d < q_lengths.size(); ++d) {
    documents.push_back({{q, q + q_lengths[d]}, {k, k + k_lengths[d]}});
    q += q_lengths[d];
    k += k_lengths[d];
    if (q > context.q_tokens || k > context.k_tokens) {
      return absl::InvalidArgumentError(
          fmt::format("the documents have {} query and {} key tokens up to document {}, but the "
                      "sequence has {} and {}",
                      q, k, d, context.q_tokens, context.k_tokens));
    }
  }
  return documents;
}

absl::StatusOr<std::vector<int64_t>> DrawLengths(const MaskContext& context,
                                                 const Options& options) {
  const int64_t tokens = context.q_tokens;
  DocumentOptions drawn;
  absl::StatusOr<double> share = ReadMix(GetText(options, "mix"));
  if (!share.ok()) return share.status();
  drawn.uniform_share = *share;
  if (GetText(options, "cap") == "quarter") drawn.cap = std::max<int64_t>(tokens / 4, 1);
  if (!GetList(options, "histogram").empty()) {
    if (GetText(options, "documents") != "auto") {
      return absl::InvalidArgumentError(
          "lengths are drawn from 'documents' or from 'histogram': drop the one or the other");
    }
    auto bins = ReadHistogram(GetList(options, "histogram"));
    if (!bins.ok()) return bins.status();
    drawn.histogram = *std::move(bins);
  } else {
    std::string name = GetText(options, "documents");
    if (name == "auto") {
      name = tokens <= 8192 ? "pile" : tokens <= 65536 ? "prolong64k" : "prolong512k";
    }
    auto bins = LengthHistogram(name);
    if (!bins.ok()) return bins.status();
    drawn.histogram.assign(bins->begin(), bins->end());
  }
  return DrawDocuments(tokens, drawn, context.seed, context.draw);
}

absl::StatusOr<std::vector<Document>> MakeDocuments(const MaskContext& context,
                                                    const Options& options) {
  auto lengths = ReadCounts(options, "lengths", 0);
  if (!lengths.ok()) return lengths.status();
  auto q_lengths = ReadCounts(options, "query_lengths", 0);
  if (!q_lengths.ok()) return q_lengths.status();
  auto k_lengths = ReadCounts(options, "key_lengths", 0);
  if (!k_lengths.ok()) return k_lengths.status();

  const bool apart = !q_lengths->empty() || !k_lengths->empty();
  const bool given = apart || !lengths->empty();
  const bool drawn = GetText(options, "documents") != "auto" || GetText(options, "cap") != "none" ||
                     GetText(options, "mix") != "100:0" || !GetList(options, "histogram").empty();
  if (given && drawn) {
    return absl::InvalidArgumentError(
        "lengths are given, so 'documents', 'histogram', 'mix' and 'cap' have nothing to draw: "
        "drop the one or the other");
  }
  if (apart && !lengths->empty()) {
    return absl::InvalidArgumentError(
        "give either 'lengths' or both 'query_lengths' and 'key_lengths'");
  }
  if (apart) return Pack(context, *q_lengths, *k_lengths);
  if (absl::Status status = RequireSelfAttention(context); !status.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{}; give 'query_lengths' and 'key_lengths'", std::string(status.message())));
  }
  if (!given) lengths = DrawLengths(context, options);
  if (!lengths.ok()) return lengths.status();
  return Pack(context, *lengths, *lengths);
}

Band Full(const Interval& q, const Interval& k) { return {q.begin, q.end, k.begin, k.end, {}, {}}; }

// The last row sees the last key, the row before it one key less.
Band Causal(const Interval& q, const Interval& k) {
  return ToBand({q.begin, q.end, k.begin, k.end, SliceKind::kCausal});
}

absl::StatusOr<Mask> MakeFullDocument(const MaskContext& context, const Options& options) {
  auto documents = MakeDocuments(context, options);
  if (!documents.ok()) return documents.status();
  std::vector<Band> bands;
  for (const Document& document : *documents) bands.push_back(Full(document.q, document.k));
  return MaskOfBands(context, std::move(bands));
}

absl::StatusOr<Mask> MakeCausalDocument(const MaskContext& context, const Options& options) {
  auto documents = MakeDocuments(context, options);
  if (!documents.ok()) return documents.status();
  std::vector<Band> bands;
  for (const Document& document : *documents) bands.push_back(Causal(document.q, document.k));
  return MaskOfBands(context, std::move(bands));
}

absl::StatusOr<Mask> MakeShareQuestion(const MaskContext& context, const Options& options) {
  auto documents = MakeDocuments(context, options);
  if (!documents.ok()) return documents.status();
  std::vector<Band> bands;
  for (const Document& document : *documents) {
    if (!bands.empty()) bands.push_back(Full(document.q, documents->front().k));
    bands.push_back(Causal(document.q, document.k));
  }
  return MaskOfBands(context, std::move(bands));
}

absl::StatusOr<Mask> MakeCausalBlockwise(const MaskContext& context, const Options& options) {
  auto documents = MakeDocuments(context, options);
  if (!documents.ok()) return documents.status();
  std::vector<Band> bands;
  for (const Document& document : *documents) {
    const bool last = &document == &documents->back();
    bands.push_back(Causal(document.q, {last ? 0 : document.k.begin, document.k.end}));
  }
  return MaskOfBands(context, std::move(bands));
}

absl::StatusOr<Mask> MakePrefixLmDocument(const MaskContext& context, const Options& options) {
  auto documents = MakeDocuments(context, options);
  if (!documents.ok()) return documents.status();
  int64_t prefix = GetInteger(options, "prefix");
  const auto first = std::find_if(documents->begin(), documents->end(),
                                  [](const Document& document) { return !document.k.empty(); });
  if (prefix == 0 && first != documents->end()) {
    PhiloxStream random = DrawStream(context.seed, DrawPurpose::kPrefix, context.draw);
    prefix = 1 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(first->k.size())));
  }
  std::vector<Band> bands;
  for (const Document& document : *documents) {
    const int64_t end = document.k.begin + std::min(prefix, document.k.size());
    bands.push_back(Full(document.q, {document.k.begin, end}));
    bands.push_back(Clip(Causal(document.q, document.k), document.q, {end, document.k.end}));
  }
  return MaskOfBands(context, std::move(bands));
}

// Numbers of blocks of the documents: given, or drawn until the tokens are used up.
absl::StatusOr<std::vector<int64_t>> MakeBlockCounts(const MaskContext& context,
                                                     const Options& options, int64_t block) {
  auto counts = ReadCounts(options, "blocks", 1);
  if (!counts.ok() || !counts->empty()) return counts;
  PhiloxStream random = DrawStream(context.seed, DrawPurpose::kBlockCounts, context.draw);
  for (int64_t used = 0; used < context.q_tokens; used += counts->back() * block) {
    counts->push_back(1 + static_cast<int64_t>(random.Below(kMostBlocksOfADocument)));
  }
  return counts;
}

absl::StatusOr<Mask> MakeBlockCausalDocument(const MaskContext& context, const Options& options) {
  if (absl::Status status = RequireSelfAttention(context); !status.ok()) return status;
  const int64_t block = GetInteger(options, "block");
  // Each block is a band.
  if (context.q_tokens / block > kMaxDocuments) {
    return absl::InvalidArgumentError(
        fmt::format("{} tokens in blocks of {} are more than {} blocks; use larger ones",
                    context.q_tokens, block, kMaxDocuments));
  }
  auto counts = MakeBlockCounts(context, options, block);
  if (!counts.ok()) return counts.status();
  std::vector<Band> bands;
  int64_t begin = 0;
  for (size_t d = 0; d < counts->size(); ++d) {
    if (begin >= context.q_tokens) {
      return absl::InvalidArgumentError(
          fmt::format("'blocks' has {} documents, but document {} would begin at token {} of {}",
                      counts->size(), d, begin, context.q_tokens));
    }
    // What a document lacks in tokens at the end of the sequence is cut off.
    const int64_t most = (context.q_tokens - begin + block - 1) / block;
    const int64_t blocks = std::min((*counts)[d], most);
    for (int64_t n = 0; n < blocks; ++n) {
      const int64_t end = std::min(begin + (n + 1) * block, context.q_tokens);
      bands.push_back(Full({begin + n * block, end}, {begin, end}));
    }
    begin += blocks * block;
  }
  return MaskOfBands(context, std::move(bands));
}

// What every mask over documents takes.
std::vector<Parameter> DocumentParameters() {
  std::vector<std::string> names = LengthHistogramNames();
  names.insert(names.begin(), "auto");
  const Value none{Value::List{}};
  return {
      {"documents",
       ParameterKind::kText,
       Value{std::string("auto")},
       "histogram that lengths are drawn from; auto: pile up to 8K tokens, prolong64k up to 64K, "
       "prolong512k above",
       {},
       {},
       names},
      {"histogram",
       ParameterKind::kList,
       none,
       "a histogram of your own: [begin, end, weight] for each bin of lengths",
       {},
       {},
       {}},
      {"lengths",
       ParameterKind::kList,
       none,
       "tokens of each document instead of drawn ones; what they leave over is padding",
       {},
       {},
       {}},
      {"query_lengths",
       ParameterKind::kList,
       none,
       "rows of each document, where they differ from its keys",
       {},
       {},
       {}},
      {"key_lengths",
       ParameterKind::kList,
       none,
       "keys of each document, where they differ from its rows",
       {},
       {},
       {}},
      {"mix",
       ParameterKind::kText,
       Value{std::string("100:0")},
       "percent of the tokens in documents by the histogram and in documents of U{8192..30720} "
       "tokens, shuffled; \"40:60\" is LCAB's",
       {},
       {},
       {}},
      {"cap",
       ParameterKind::kText,
       Value{std::string("none")},
       "quarter: no document is longer than a quarter of the sequence",
       {},
       {},
       {"none", "quarter"}},
  };
}

std::vector<Parameter> WithPrefix(std::vector<Parameter> parameters) {
  parameters.push_back({"prefix",
                        ParameterKind::kInteger,
                        Value{int64_t{0}},
                        "keys of each document that all its rows see; 0: drawn once, from "
                        "1..length of the first document that is not empty",
                        0,
                        kMostTokens,
                        {}});
  return parameters;
}

}  // namespace

std::vector<MaskType> DocumentMaskTypes() {
  const std::vector<Parameter> documents = DocumentParameters();
  return {
      {"full_document", "all pairs within a document", documents, true, MakeFullDocument},
      {"causal_document",
       "pairs within a document; its last row sees all its keys, each row before it one less",
       documents, true, MakeCausalDocument},
      {"share_question", "causal documents, and every later document also sees all of the first",
       documents, true, MakeShareQuestion},
      {"causal_blockwise",
       "causal documents, and the last one is causal over everything before it too", documents,
       true, MakeCausalBlockwise},
      {"prefix_lm_document",
       "within a document, its first prefix keys and what causal_document allows",
       WithPrefix(documents), true, MakePrefixLmDocument},
      {"block_causal_document",
       "a row sees its document up to and including its own block",
       {{"block",
         ParameterKind::kInteger,
         Value{int64_t{1024}},
         "tokens of a block",
         1,
         kMostTokens,
         {}},
        {"blocks",
         ParameterKind::kList,
         Value{Value::List{}},
         "number of blocks of each document, the last cut to the sequence; empty: U{1..8} each, "
         "until the sequence is full",
         {},
         {},
         {}}},
       true,
       MakeBlockCausalDocument},
  };
}

}  // namespace lcab
