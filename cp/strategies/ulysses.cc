// `ulysses`: all-to-alls turn shards of tokens into shards of heads, each rank attends over the
// whole sequence for its heads, and all-to-alls turn the results back (Jacobs et al., arXiv
// 2309.14509). kv heads are replicated where ranks outnumber them.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cp/builder.h"
#include "cp/bytes.h"
#include "cp/sharding.h"
#include "cp/strategies/requirements.h"
#include "cp/strategies/single_schedule.h"
#include "cp/strategy.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace lcab::cp {
namespace {

constexpr int kCommunicator = 0;

// Who has which heads, on ranks that divide the query heads and divide, or are a multiple of, the
// kv heads.
class HeadShards {
 public:
  HeadShards(const Problem& problem, int ranks)
      : q_heads_(problem.q_heads / ranks),
        kv_heads_(std::max<int64_t>(problem.kv_heads, ranks) / ranks),
        replicas_(std::max<int64_t>(ranks / problem.kv_heads, 1)) {}

  Interval QueryHeads(int rank) const { return {rank * q_heads_, (rank + 1) * q_heads_}; }
  Interval KvHeads(int rank) const {
    const int64_t first = rank / replicas_ * kv_heads_;
    return {first, first + kv_heads_};
  }
  // How many ranks have each kv head: neighbours.
  int64_t replicas() const { return replicas_; }

 private:
  int64_t q_heads_, kv_heads_;  // of a rank
  int64_t replicas_;
};

// For two ranks or more. One round: nothing repeats.
class UlyssesSchedule : public RankSchedule {
 public:
  UlyssesSchedule(const PlanRequest& request, int rank)
      : problem_(request.problem),
        ranks_(request.topology.ranks),
        rank_(rank),
        wants_delta_(request.kernel.wants_delta),
        stream_(request.overlap ? 1 : kComputeStream),
        heads_(problem_, ranks_),
        q_shards_(ShardContiguous(problem_.q_tokens(), ranks_)),
        k_shards_(ShardContiguous(problem_.k_tokens(), ranks_)) {
    frame_.rank = rank;
    frame_.ranks = ranks_;
    frame_.streams = stream_ + 1;
    frame_.communicators = 1;
    frame_.problems = {problem_};
    // What the backward pass reads again stays.
    const BufferRole saved = request.backward ? BufferRole::kSaved : BufferRole::kTemp;
    q_ = DeclareTensor(frame_.inputs, Tensor::kQ, "q", BufferRole::kIn, saved);
    k_ = DeclareTensor(frame_.inputs, Tensor::kK, "k", BufferRole::kIn, saved);
    v_ = DeclareTensor(frame_.inputs, Tensor::kV, "v", BufferRole::kIn, saved);
    out_ = DeclareTensor(frame_.forward_outputs, Tensor::kOut, "out", BufferRole::kOut, saved);
    lse_ =
        DeclareRowStat(frame_, "lse", problem_.q_tokens(), QueryHeads().size(), BufferRole::kOut);
    frame_.forward_outputs.push_back({Tensor::kLse, 0, TokenSet::Range(0, problem_.q_tokens()),
                                      QueryHeads(), All(frame_, lse_)});
    if (!request.backward) return;
    const BufferRole temp = BufferRole::kTemp;
    dout_ = DeclareTensor(frame_.inputs, Tensor::kDOut, "dout", BufferRole::kIn, temp);
    dq_ = DeclareTensor(frame_.backward_outputs, Tensor::kDQ, "dq", BufferRole::kOut, temp);
    dk_ = DeclareTensor(frame_.backward_outputs, Tensor::kDK, "dk", BufferRole::kOut, temp);
    dv_ = DeclareTensor(frame_.backward_outputs, Tensor::kDV, "dv", BufferRole::kOut, temp);
    if (wants_delta_) {
      delta_ = DeclareRowStat(frame_, "delta", problem_.q_tokens(), QueryHeads().size(), temp);
    }
  }

  const RankPlan& frame() const override { return frame_; }
  int Rounds(Pass) const override { return 1; }

  void EmitRound(Pass pass, int, StepSink& sink) const override {
    if (pass == Pass::kForward) {
      ToHeads({&q_, &k_, &v_}, sink);
      sink.Emit(kComputeStream, Attend{.target = Target(),
                                       .q = All(frame_, q_.heads),
                                       .k = All(frame_, k_.heads),
                                       .v = All(frame_, v_.heads),
                                       .out = All(frame_, out_.heads),
                                       .lse = All(frame_, lse_)});
      ToTokens({&out_}, sink);
      return;
    }
    ToHeads({&dout_}, sink);
    if (wants_delta_) {
      sink.Emit(kComputeStream, Delta{.out = All(frame_, out_.heads),
                                      .dout = All(frame_, dout_.heads),
                                      .delta = All(frame_, delta_)});
    }
    sink.Emit(kComputeStream, AttendBackward{.target = Target(),
                                             .q = All(frame_, q_.heads),
                                             .k = All(frame_, k_.heads),
                                             .v = All(frame_, v_.heads),
                                             .dout = All(frame_, dout_.heads),
                                             .lse = All(frame_, lse_),
                                             .out = wants_delta_ ? View{} : All(frame_, out_.heads),
                                             .delta = wants_delta_ ? All(frame_, delta_) : View{},
                                             .dq = All(frame_, dq_.heads),
                                             .dk = All(frame_, dk_.heads),
                                             .dv = All(frame_, dv_.heads)});
    ToTokens({&dq_, &dk_, &dv_}, sink);
  }

 private:
  // One tensor in its two forms: this rank's tokens of all heads, and all tokens of its heads; and
  // what is under way between them, a block for each other rank.
  struct Exchanged {
    bool by_key = false;
    bool summed = false;  // replicas of a kv head each have a part of it
    int tokens = -1, heads = -1, blocks = -1;
  };

  Interval QueryHeads() const { return heads_.QueryHeads(rank_); }
  Interval HeadsOf(const Exchanged& t, int rank) const {
    return t.by_key ? heads_.KvHeads(rank) : heads_.QueryHeads(rank);
  }
  const TokenSet& TokensOf(const Exchanged& t, int rank) const {
    return (t.by_key ? k_shards_ : q_shards_)[static_cast<size_t>(rank)];
  }
  // Rows of a rank's tokens among all.
  Interval RowsOf(const Exchanged& t, int rank) const {
    const TokenSet& tokens = TokensOf(t, rank);
    const int64_t begin = tokens.empty() ? 0 : *tokens.TokenAt(0);
    return {begin, begin + tokens.rows()};
  }
  View OwnTokens(const Exchanged& t, Interval heads) const {
    return Part(t.tokens, {0, TokensOf(t, rank_).rows()}, heads);
  }
  View Block(const Exchanged& t, int peer) const {
    const int64_t rows = TokensOf(t, rank_).rows(), index = peer < rank_ ? peer : peer - 1;
    return RowsPart(frame_, t.blocks, {index * rows, (index + 1) * rows});
  }

  Exchanged DeclareTensor(std::vector<Held>& list, Tensor tensor, const std::string& name,
                          BufferRole tokens_role, BufferRole heads_role) {
    const bool gradient = tensor == Tensor::kDK || tensor == Tensor::kDV;
    Exchanged t{.by_key = gradient || tensor == Tensor::kK || tensor == Tensor::kV,
                .summed = gradient && heads_.replicas() > 1};
    const Problem::Extent extent = problem_.ExtentOf(tensor);
    const TokenSet& own = TokensOf(t, rank_);
    const int64_t heads = HeadsOf(t, rank_).size();
    const DType between = t.summed ? DType::kFloat32 : problem_.dtype;
    t.tokens = Declare(frame_, {.name = name,
                                .rows = own.rows(),
                                .heads = extent.heads,
                                .dim = extent.dim,
                                .dtype = problem_.dtype,
                                .role = tokens_role});
    t.heads = Declare(frame_, {.name = name + "_by_heads",
                               .rows = extent.tokens,
                               .heads = heads,
                               .dim = extent.dim,
                               .dtype = between,
                               .role = heads_role});
    t.blocks = Declare(frame_, {.name = name + "_blocks",
                                .rows = (ranks_ - 1) * own.rows(),
                                .heads = heads,
                                .dim = extent.dim,
                                .dtype = between});
    list.push_back({tensor, 0, own, {0, extent.heads}, All(frame_, t.tokens)});
    return t;
  }

  AttendTarget Target() const {
    return {.problem = 0,
            .q_tokens = TokenSet::Range(0, problem_.q_tokens()),
            .k_tokens = TokenSet::Range(0, problem_.k_tokens()),
            .q_heads = QueryHeads(),
            .kv_heads = heads_.KvHeads(rank_)};
  }

  // Each rank's heads of our tokens are packed into a block and sent to it.
  void ToHeads(std::initializer_list<const Exchanged*> tensors, StepSink& sink) const {
    Exchange exchange{.communicator = kCommunicator, .pattern = Pattern::kAllToAll};
    for (const Exchanged* t : tensors) {
      for (int peer = 0; peer < ranks_; ++peer) {
        const View rows = RowsPart(frame_, t->heads, RowsOf(*t, peer));
        const View to = peer == rank_ ? rows : Block(*t, peer);
        sink.Emit(kComputeStream, Copy{.to = to, .from = OwnTokens(*t, HeadsOf(*t, peer))});
        if (peer == rank_) continue;
        AddMessage(exchange.sends, peer, to);
        AddMessage(exchange.receives, peer, rows);
      }
    }
    sink.Emit(stream_, std::move(exchange));
  }

  // The other way: each rank's tokens of our heads are sent to it as they lie.
  void ToTokens(std::initializer_list<const Exchanged*> tensors, StepSink& sink) const {
    Exchange exchange{.communicator = kCommunicator, .pattern = Pattern::kAllToAll};
    for (const Exchanged* t : tensors) {
      for (int peer = 0; peer < ranks_; ++peer) {
        if (peer == rank_) continue;
        AddMessage(exchange.sends, peer, RowsPart(frame_, t->heads, RowsOf(*t, peer)));
        AddMessage(exchange.receives, peer, Block(*t, peer));
      }
    }
    sink.Emit(stream_, std::move(exchange));
    for (const Exchanged* t : tensors) Unpack(*t, sink);
  }

  void Unpack(const Exchanged& t, StepSink& sink) const {
    const int step = t.summed ? static_cast<int>(heads_.replicas()) : 1;
    for (int first = 0; first < ranks_; first += step) {
      const View sum = PartOf(t, first);
      for (int replica = first + 1; replica < first + step; ++replica) {
        sink.Emit(kComputeStream, Add{.to = sum, .from = PartOf(t, replica)});
      }
      sink.Emit(kComputeStream, Copy{.to = OwnTokens(t, HeadsOf(t, first)), .from = sum});
    }
  }
  // What a rank has computed for our tokens.
  View PartOf(const Exchanged& t, int rank) const {
    return rank == rank_ ? RowsPart(frame_, t.heads, RowsOf(t, rank)) : Block(t, rank);
  }

  const Problem problem_;
  const int ranks_;
  const int rank_;
  const bool wants_delta_;
  const StreamIndex stream_;
  const HeadShards heads_;
  const std::vector<TokenSet> q_shards_, k_shards_;

  RankPlan frame_;
  Exchanged q_, k_, v_, out_, dout_, dq_, dk_, dv_;
  int lse_ = -1, delta_ = -1;
};

bool DividesHeads(const Problem& problem, int64_t ranks) {
  return problem.q_heads % ranks == 0 &&
         (problem.kv_heads % ranks == 0 || ranks % problem.kv_heads == 0);
}

class Ulysses : public Strategy {
 public:
  std::string name() const override { return "ulysses"; }
  std::string description() const override {
    return "all-to-alls turn shards of tokens into shards of heads and back; ranks must divide the "
           "heads";
  }
  int64_t BytesSent(const PlanRequest& request, int rank, Pass pass) const override {
    return UlyssesBytesSent(request.problem, request.topology.ranks, rank, pass);
  }

 private:
  absl::Status DoSupports(const PlanRequest& request) const override {
    const Problem& problem = request.problem;
    const int ranks = request.topology.ranks;
    if (!DividesHeads(problem, ranks)) {
      std::vector<int64_t> right;
      for (int64_t n = 1; n <= problem.q_heads; ++n) {
        if (DividesHeads(problem, n)) right.push_back(n);
      }
      return absl::UnimplementedError(
          fmt::format("ulysses gives each rank its own heads, and {}; ranks that do: {}",
                      problem.q_heads % ranks != 0
                          ? fmt::format("{} does not divide {} query heads", ranks, problem.q_heads)
                          : fmt::format("{} does not divide {} kv heads, nor the other way round",
                                        ranks, problem.kv_heads),
                      fmt::join(right, ", ")));
    }
    // Replicas of a kv head each compute a part of its gradients.
    return problem.kv_heads < ranks ? RequireFloat32Gradients(request) : absl::OkStatus();
  }
  std::vector<RankPlan> DoMakePlans(const PlanRequest& request) const override {
    if (request.topology.ranks == 1) return MakeSinglePlan(request);
    return BuildPlans(request.topology.ranks, request.backward,
                      [&](int rank) { return std::make_unique<UlyssesSchedule>(request, rank); });
  }
};

}  // namespace

void Register_ulysses(StrategyRegistry& registry) { registry.Add(std::make_unique<Ulysses>()); }

}  // namespace lcab::cp
