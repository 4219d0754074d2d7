#include "measurement/truth_store.h"

#include <fmt/format.h>

#include <new>

#include "attention/philox.h"
#include "lcab/v1/votes.pb.h"
#include "measurement/shards.h"

namespace lcab::measurement {
namespace {

constexpr uint32_t kPurpose = 0x54525554;
// Of one message through the rendezvous: values of 8 bytes each, well below a megabyte.
constexpr int64_t kMostValuesOfPiece = 65'536;
// Other distributions are looked at with a fraction of the rows.
constexpr double kShareOfOthers = 0.5;

v1::TruthRow ToProto(const TruthRow& row) {
  v1::TruthRow message;
  message.set_tensor(static_cast<int32_t>(row.tensor));
  message.set_head(row.head);
  message.set_token(row.token);
  message.mutable_values()->Add(row.values.begin(), row.values.end());
  message.set_allowed(row.allowed);
  message.set_scale(row.scale);
  message.set_distribution(static_cast<int32_t>(row.distribution));
  return message;
}

TruthRow FromProto(const v1::TruthRow& message) {
  return {.tensor = static_cast<Tensor>(message.tensor()),
          .head = message.head(),
          .token = message.token(),
          .values = {message.values().begin(), message.values().end()},
          .allowed = message.allowed(),
          .scale = message.scale(),
          .distribution = static_cast<Distribution>(message.distribution())};
}

}  // namespace

TruthStore::TruthStore(Problem problem, uint64_t seed, Distribution distribution, uint64_t secret,
                       Device& device, Ranks ranks)
    : problem_(std::move(problem)), device_(device), ranks_(std::move(ranks)) {
  PhiloxStream random(secret, kPurpose);
  const auto source = [&](Distribution drawn_from, uint32_t generation) {
    return InputSource{.seed = seed,
                       .generation = generation,
                       .distribution = drawn_from,
                       .dtype = problem_.dtype,
                       .heads_per_kv = problem_.heads_per_kv()};
  };
  const auto add = [&](std::vector<InputSource> sources, double share) {
    const SelectionBudget whole;
    const SelectionBudget budget = {.reference = whole.reference * share,
                                    .statistics = whole.statistics * share,
                                    .statistics_ceiling = whole.statistics_ceiling * share};
    const uint64_t rows = random.Next64();
    cases_.push_back({.sources = std::move(sources),
                      .forward = SelectRows(problem_, Pass::kForward, rows, budget),
                      .backward = SelectRows(problem_, Pass::kBackward, rows, budget)});
  };
  const auto heads = static_cast<size_t>(problem_.kv_heads);
  // The first inputs are those of the seed alone, so that a trial can be repeated; the changed ones
  // nobody can know before.
  add(std::vector(heads, source(distribution, 0)), 1);
  add(std::vector(heads, source(distribution, random.Next32() | 1U)), 1);

  std::vector<Distribution> others;
  for (const Distribution other : {Distribution::kNormal, Distribution::kHeavyTailed,
                                   Distribution::kLargeRows, Distribution::kCorrelated}) {
    if (other != distribution) others.push_back(other);
  }
  const size_t runs = (others.size() + heads - 1) / heads;
  for (size_t run = 0; run < runs; ++run) {
    std::vector<InputSource> sources;
    for (size_t head = 0; head < heads; ++head) {
      sources.push_back(source(others[(head + run) % others.size()], 0));
    }
    add(std::move(sources), kShareOfOthers);
  }
}

const InputSource& TruthStore::SourceOf(int index, Tensor tensor, int64_t head) const {
  const bool by_key = tensor == Tensor::kK || tensor == Tensor::kV;
  const int64_t kv_head = by_key ? head : problem_.KvHeadOf(head);
  return cases_[static_cast<size_t>(index)].sources[static_cast<size_t>(kv_head)];
}

absl::StatusOr<std::vector<TruthRow>> TruthStore::ComputePart(Pass pass, int index) {
  const ParallelFor parallel_for = [this](int64_t parts, const std::function<void(int64_t)>& body) {
    RunParts(device_, parts, [&](int64_t part, int) { body(part); });
  };
  std::vector<TruthRow> rows;
  for (int64_t head = ranks_.rank; head < problem_.kv_heads; head += ranks_.ranks) {
    // Memory for inputs and statistics is the only thing that can be missing.
    try {
      std::vector<TruthRow> of_head =
          ComputeTruth(problem_, pass, SourceOf(index, Tensor::kK, head), selection(pass, index),
                       head, parallel_for);
      rows.insert(rows.end(), std::make_move_iterator(of_head.begin()),
                  std::make_move_iterator(of_head.end()));
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(
          fmt::format("no host memory for the fp64 check of head {}: it takes {} bytes of inputs",
                      head, HeadInputsBytes(problem_, pass)));
    }
  }
  return rows;
}

absl::Status TruthStore::Publish(const std::string& key,
                                 const absl::StatusOr<std::vector<TruthRow>>& part) {
  v1::TruthPiece piece;
  int64_t values = 0;
  int number = 0;
  const auto put = [&](bool last) {
    piece.set_last(last);
    absl::Status status =
        ranks_.rendezvous->Put(fmt::format("{}/{}", key, number++), piece.SerializeAsString());
    piece.Clear();
    values = 0;
    return status;
  };
  if (!part.ok()) {
    piece.set_error(std::string(part.status().message()));
    piece.set_code(part.status().raw_code());
    return put(true);
  }
  for (const TruthRow& row : *part) {
    *piece.add_rows() = ToProto(row);
    values += static_cast<int64_t>(row.values.size()) + 4;
    if (values < kMostValuesOfPiece) continue;
    if (absl::Status status = put(false); !status.ok()) return status;
  }
  return put(true);
}

absl::Status TruthStore::Receive(int rank, const std::string& key, absl::Time deadline,
                                 std::vector<TruthRow>* rows) {
  for (int number = 0;; ++number) {
    const absl::StatusOr<std::string> bytes =
        ranks_.rendezvous->Get(fmt::format("{}/{}", key, number), deadline);
    if (absl::IsDeadlineExceeded(bytes.status())) {
      return absl::DeadlineExceededError(
          fmt::format("rank {} did not give its part of the fp64 reference in time", rank));
    }
    if (!bytes.ok()) return bytes.status();
    v1::TruthPiece piece;
    if (!piece.ParseFromString(*bytes)) {
      return absl::InternalError(
          fmt::format("rank {}'s part of the fp64 reference cannot be read", rank));
    }
    if (piece.code() != 0) {
      return absl::Status(static_cast<absl::StatusCode>(piece.code()), piece.error());
    }
    for (const v1::TruthRow& row : piece.rows()) rows->push_back(FromProto(row));
    if (piece.last()) return absl::OkStatus();
  }
}

absl::StatusOr<const std::vector<TruthRow>*> TruthStore::Get(Pass pass, int index,
                                                             absl::Time deadline) {
  const auto found = truths_.find({pass, index});
  if (found != truths_.end()) return &found->second;
  absl::StatusOr<std::vector<TruthRow>> part = ComputePart(pass, index);
  const auto key = [&](int rank) {
    return fmt::format("{}/truth/{}/{}/{}", ranks_.prefix, Name(pass), index, rank);
  };
  if (ranks_.ranks > 1) {
    // Also a failure: the others wait for this.
    if (absl::Status status = Publish(key(ranks_.rank), part); !status.ok()) return status;
  }
  if (!part.ok()) return part.status();
  std::vector<TruthRow> rows = *std::move(part);
  for (int rank = 0; rank < ranks_.ranks; ++rank) {
    if (rank == ranks_.rank) continue;
    absl::Status status = Receive(rank, key(rank), deadline, &rows);
    if (!status.ok()) return status;
  }
  return &truths_.emplace(std::pair{pass, index}, std::move(rows)).first->second;
}

}  // namespace lcab::measurement
