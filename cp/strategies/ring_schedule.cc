#include "cp/strategies/ring_schedule.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "cp/strategies/requirements.h"
#include "cp/strategies/single_schedule.h"

namespace lcab::cp {
namespace {

// Communicators, and with overlap the streams that carry them.
constexpr int kKvCommunicator = 0;
constexpr int kGradientCommunicator = 1;

// Two views that always go together: K and V, or dK and dV.
struct KvViews {
  View k, v;
};

// For two ranks or more. A round is a step of the ring.
class RingSchedule : public RankSchedule {
 public:
  RingSchedule(const PlanRequest& request, const RingShards& shards, int rank)
      : problem_(request.problem),
        shards_(shards),
        ranks_(request.topology.ranks),
        rank_(rank),
        wants_delta_(request.kernel.wants_delta),
        kv_stream_(request.overlap ? 1 : kComputeStream),
        gradient_stream_(request.overlap && request.backward ? 2 : kComputeStream),
        q_tokens_(shards.q[static_cast<size_t>(rank)]) {
    FindWork();
    frame_.rank = rank;
    frame_.ranks = ranks_;
    frame_.streams = std::max(kv_stream_, gradient_stream_) + 1;
    frame_.communicators = request.backward ? 2 : 1;
    frame_.problems = {problem_};
    DeclareForward(request.backward);
    if (request.backward) DeclareBackward();
  }

  const RankPlan& frame() const override { return frame_; }
  int Rounds(Pass) const override { return ranks_; }

  void EmitRound(Pass pass, int round, StepSink& sink) const override {
    if (round + 1 < ranks_) SendKvOn(round, sink);
    if (pass == Pass::kForward) {
      AttendTo(round, sink);
      if (round + 1 == ranks_) FinishForward(sink);
      return;
    }
    if (round == 0 && wants_delta_) {
      sink.Emit(kComputeStream, Delta{.out = All(frame_, out_),
                                      .dout = All(frame_, dout_),
                                      .delta = All(frame_, delta_)});
    }
    AttendBackwardTo(round, sink);
    if (round + 1 == ranks_) FinishBackward(sink);
  }

 private:
  int OwnerAt(int round) const { return (rank_ - round + ranks_) % ranks_; }
  int next() const { return (rank_ + 1) % ranks_; }
  int previous() const { return (rank_ + ranks_ - 1) % ranks_; }
  const TokenSet& KeysOfOwner(int owner) const { return shards_.k[static_cast<size_t>(owner)]; }
  int64_t KeyRows(int owner) const { return KeysOfOwner(owner).rows(); }
  int64_t KeyRowsAt(int round) const { return KeyRows(OwnerAt(round)); }
  // Partial results are fp32: results in a narrower dtype need a buffer of their own for them.
  bool narrow() const { return problem_.dtype != DType::kFloat32; }

  // The rounds in which some pair of ours is allowed: kernels are not called for the others.
  void FindWork() {
    const Interval all_kv_heads{0, problem_.kv_heads};
    for (int round = 0; round < ranks_; ++round) {
      const Mask part =
          problem_.mask->Restrict(q_tokens_, KeysOfOwner(OwnerAt(round)), all_kv_heads);
      bool any = false;
      for (int64_t group = 0; group < part.groups(); ++group) any |= part.Area(group) > 0;
      has_work_.push_back(any);
      if (!any) continue;
      if (first_work_ < 0) first_work_ = round;
      ++works_;
    }
  }

  Buffer Rows(std::string name, int64_t rows, int64_t heads, int64_t dim, DType dtype,
              BufferRole role) const {
    return {.name = std::move(name),
            .rows = rows,
            .heads = heads,
            .dim = dim,
            .dtype = dtype,
            .role = role};
  }

  void Hold(std::vector<Held>& list, Tensor tensor, const TokenSet& tokens, int buffer) {
    const Buffer& b = frame_.buffers[static_cast<size_t>(buffer)];
    list.push_back({tensor, 0, tokens, {0, b.heads}, All(frame_, buffer)});
  }

  void DeclareForward(bool backward) {
    const Problem& p = problem_;
    const int64_t q_rows = q_tokens_.rows(), k_rows = KeyRows(rank_);
    const TokenSet& k_tokens = KeysOfOwner(rank_);
    q_ = Declare(frame_, Rows("q", q_rows, p.q_heads, p.qk_head_dim, p.dtype, BufferRole::kIn));
    k_ = Declare(frame_, Rows("k", k_rows, p.kv_heads, p.qk_head_dim, p.dtype, BufferRole::kIn));
    v_ = Declare(frame_, Rows("v", k_rows, p.kv_heads, p.v_head_dim, p.dtype, BufferRole::kIn));
    out_ = Declare(frame_, Rows("out", q_rows, p.q_heads, p.v_head_dim, p.dtype, BufferRole::kOut));
    lse_ = DeclareRowStat(frame_, "lse", q_rows, p.q_heads, BufferRole::kOut);
    Hold(frame_.inputs, Tensor::kQ, q_tokens_, q_);
    Hold(frame_.inputs, Tensor::kK, k_tokens, k_);
    Hold(frame_.inputs, Tensor::kV, k_tokens, v_);
    Hold(frame_.forward_outputs, Tensor::kOut, q_tokens_, out_);
    Hold(frame_.forward_outputs, Tensor::kLse, q_tokens_, lse_);

    int64_t most_rows = 0;
    for (int owner = 0; owner < ranks_; ++owner) most_rows = std::max(most_rows, KeyRows(owner));
    for (size_t turn = 0; turn < 2; ++turn) {
      ring_k_[turn] = Declare(frame_, Rows(turn == 0 ? "ring_k_even" : "ring_k_odd", most_rows,
                                           p.kv_heads, p.qk_head_dim, p.dtype, BufferRole::kTemp));
      ring_v_[turn] = Declare(frame_, Rows(turn == 0 ? "ring_v_even" : "ring_v_odd", most_rows,
                                           p.kv_heads, p.v_head_dim, p.dtype, BufferRole::kTemp));
    }
    sum_ = out_;
    if (works_ > 1) {
      if (narrow()) {
        sum_ = Declare(frame_, Rows("out_sum", q_rows, p.q_heads, p.v_head_dim, DType::kFloat32,
                                    BufferRole::kTemp));
      }
      part_ = Declare(frame_, Rows("out_part", q_rows, p.q_heads, p.v_head_dim, DType::kFloat32,
                                   BufferRole::kTemp));
      part_lse_ = DeclareRowStat(frame_, "lse_part", q_rows, p.q_heads, BufferRole::kTemp);
    }
    if (backward) {
      dout_ =
          Declare(frame_, Rows("dout", q_rows, p.q_heads, p.v_head_dim, p.dtype, BufferRole::kIn));
      Hold(frame_.inputs, Tensor::kDOut, q_tokens_, dout_);
    }
  }

  void DeclareBackward() {
    const Problem& p = problem_;
    const int64_t q_rows = q_tokens_.rows(), k_rows = KeyRows(rank_);
    const TokenSet& k_tokens = KeysOfOwner(rank_);
    dq_ = Declare(frame_, Rows("dq", q_rows, p.q_heads, p.qk_head_dim, p.dtype, BufferRole::kOut));
    dk_ = Declare(frame_, Rows("dk", k_rows, p.kv_heads, p.qk_head_dim, p.dtype, BufferRole::kOut));
    dv_ = Declare(frame_, Rows("dv", k_rows, p.kv_heads, p.v_head_dim, p.dtype, BufferRole::kOut));
    Hold(frame_.backward_outputs, Tensor::kDQ, q_tokens_, dq_);
    Hold(frame_.backward_outputs, Tensor::kDK, k_tokens, dk_);
    Hold(frame_.backward_outputs, Tensor::kDV, k_tokens, dv_);
    if (wants_delta_) {
      delta_ = DeclareRowStat(frame_, "delta", q_rows, p.q_heads, BufferRole::kTemp);
    }

    dq_sum_ = dq_;
    if (works_ > 1) {
      if (narrow()) {
        dq_sum_ = Declare(frame_, Rows("dq_sum", q_rows, p.q_heads, p.qk_head_dim, DType::kFloat32,
                                       BufferRole::kTemp));
      }
      dq_part_ = Declare(frame_, Rows("dq_part", q_rows, p.q_heads, p.qk_head_dim, DType::kFloat32,
                                      BufferRole::kTemp));
    }
    int64_t most_rows = 0;
    for (int owner = 0; owner < ranks_; ++owner) most_rows = std::max(most_rows, KeyRows(owner));
    const auto temp = [&](std::string name, int64_t dim) {
      return Declare(frame_, Rows(std::move(name), most_rows, p.kv_heads, dim, DType::kFloat32,
                                  BufferRole::kTemp));
    };
    ring_dk_ = {temp("ring_dk_even", p.qk_head_dim), temp("ring_dk_odd", p.qk_head_dim)};
    ring_dv_ = {temp("ring_dv_even", p.v_head_dim), temp("ring_dv_odd", p.v_head_dim)};
    dk_part_ = temp("dk_part", p.qk_head_dim);
    dv_part_ = temp("dv_part", p.v_head_dim);
  }

  // K and V as they lie here in a round: our own, then what arrived, in turns.
  KvViews KvAt(int round) const {
    if (round == 0) return {All(frame_, k_), All(frame_, v_)};
    return Ring(ring_k_, ring_v_, round, KeyRowsAt(round));
  }
  // The sums of dK and dV for the shard of a round; round `ranks_` brings ours home.
  KvViews GradientsAt(int round) const {
    if (round == ranks_ && !narrow()) return {All(frame_, dk_), All(frame_, dv_)};
    return Ring(ring_dk_, ring_dv_, round, KeyRows(OwnerAt(round % ranks_)));
  }
  KvViews Ring(const std::array<int, 2>& k, const std::array<int, 2>& v, int round,
               int64_t rows) const {
    const size_t turn = static_cast<size_t>(round % 2);
    return {RowsPart(frame_, k[turn], {0, rows}), RowsPart(frame_, v[turn], {0, rows})};
  }

  Exchange PassOn(int communicator, KvViews have, KvViews get) const {
    Exchange exchange{.communicator = communicator};
    AddMessage(exchange.sends, next(), std::move(have.k));
    AddMessage(exchange.sends, next(), std::move(have.v));
    AddMessage(exchange.receives, previous(), std::move(get.k));
    AddMessage(exchange.receives, previous(), std::move(get.v));
    return exchange;
  }

  void SendKvOn(int round, StepSink& sink) const {
    sink.Emit(kv_stream_, PassOn(kKvCommunicator, KvAt(round), KvAt(round + 1)));
  }

  AttendTarget TargetAt(int round) const {
    return {.problem = 0,
            .q_tokens = q_tokens_,
            .k_tokens = KeysOfOwner(OwnerAt(round)),
            .q_heads = {0, problem_.q_heads},
            .kv_heads = {0, problem_.kv_heads}};
  }

  void AttendTo(int round, StepSink& sink) const {
    if (!has_work_[static_cast<size_t>(round)]) return;
    const bool first = round == first_work_;
    KvViews kv = KvAt(round);
    sink.Emit(kComputeStream, Attend{.target = TargetAt(round),
                                     .q = All(frame_, q_),
                                     .k = std::move(kv.k),
                                     .v = std::move(kv.v),
                                     .out = All(frame_, first ? sum_ : part_),
                                     .lse = All(frame_, first ? lse_ : part_lse_)});
    if (first) return;
    sink.Emit(kComputeStream, Merge{.out = All(frame_, sum_),
                                    .lse = All(frame_, lse_),
                                    .part = All(frame_, part_),
                                    .part_lse = All(frame_, part_lse_)});
  }

  void FinishForward(StepSink& sink) const {
    if (works_ == 0) {
      constexpr float kNoKeys = -std::numeric_limits<float>::infinity();
      sink.Emit(kComputeStream, Fill{.to = All(frame_, out_), .value = 0});
      sink.Emit(kComputeStream, Fill{.to = All(frame_, lse_), .value = kNoKeys});
    }
    if (sum_ != out_) {
      sink.Emit(kComputeStream, Copy{.to = All(frame_, out_), .from = All(frame_, sum_)});
    }
  }

  void AttendBackwardTo(int round, StepSink& sink) const {
    const bool work = has_work_[static_cast<size_t>(round)];
    const bool first = round == first_work_;
    // The gradients of the shard that is here. Ours start the sum; the others' arrive with the
    // sum so far, which may still be under way while our part is computed.
    KvViews sum = GradientsAt(round);
    KvViews part = sum;
    if (round > 0) {
      const Interval rows{0, KeyRowsAt(round)};
      part = {RowsPart(frame_, dk_part_, rows), RowsPart(frame_, dv_part_, rows)};
    }
    if (work) {
      KvViews kv = KvAt(round);
      sink.Emit(kComputeStream, AttendBackward{.target = TargetAt(round),
                                               .q = All(frame_, q_),
                                               .k = std::move(kv.k),
                                               .v = std::move(kv.v),
                                               .dout = All(frame_, dout_),
                                               .lse = All(frame_, lse_),
                                               .out = wants_delta_ ? View{} : All(frame_, out_),
                                               .delta = wants_delta_ ? All(frame_, delta_) : View{},
                                               .dq = All(frame_, first ? dq_sum_ : dq_part_),
                                               .dk = part.k,
                                               .dv = part.v});
      if (!first) {
        sink.Emit(kComputeStream, Add{.to = All(frame_, dq_sum_), .from = All(frame_, dq_part_)});
      }
      if (round > 0) {
        sink.Emit(kComputeStream, Add{.to = sum.k, .from = std::move(part.k)});
        sink.Emit(kComputeStream, Add{.to = sum.v, .from = std::move(part.v)});
      }
    } else if (round == 0) {
      sink.Emit(kComputeStream, Fill{.to = sum.k, .value = 0});
      sink.Emit(kComputeStream, Fill{.to = sum.v, .value = 0});
    }
    sink.Emit(gradient_stream_,
              PassOn(kGradientCommunicator, std::move(sum), GradientsAt(round + 1)));
  }

  void FinishBackward(StepSink& sink) const {
    if (works_ == 0) sink.Emit(kComputeStream, Fill{.to = All(frame_, dq_), .value = 0});
    if (dq_sum_ != dq_) {
      sink.Emit(kComputeStream, Copy{.to = All(frame_, dq_), .from = All(frame_, dq_sum_)});
    }
    if (narrow()) {
      KvViews home = GradientsAt(ranks_);
      sink.Emit(kComputeStream, Copy{.to = All(frame_, dk_), .from = std::move(home.k)});
      sink.Emit(kComputeStream, Copy{.to = All(frame_, dv_), .from = std::move(home.v)});
    }
  }

  const Problem problem_;
  const RingShards& shards_;
  const int ranks_;
  const int rank_;
  const bool wants_delta_;
  const StreamIndex kv_stream_, gradient_stream_;
  const TokenSet q_tokens_;

  std::vector<bool> has_work_;  // by round
  int first_work_ = -1;         // the first such round
  int works_ = 0;               // their number

  RankPlan frame_;
  // Indices of buffers.
  int q_ = -1, k_ = -1, v_ = -1, out_ = -1, lse_ = -1;
  int sum_ = -1, part_ = -1, part_lse_ = -1;
  int dout_ = -1, delta_ = -1, dq_ = -1, dk_ = -1, dv_ = -1;
  int dq_sum_ = -1, dq_part_ = -1, dk_part_ = -1, dv_part_ = -1;
  std::array<int, 2> ring_k_{}, ring_v_{}, ring_dk_{}, ring_dv_{};
};

}  // namespace

absl::Status SupportsRing(const PlanRequest& request) {
  if (request.topology.ranks == 1) return absl::OkStatus();
  if (absl::Status s = RequireFloat32Partials(request); !s.ok()) return s;
  return RequireFloat32Gradients(request);
}

std::vector<RankPlan> MakeRingPlans(const PlanRequest& request, const RingShards& shards) {
  if (request.topology.ranks == 1) return MakeSinglePlan(request);
  return BuildPlans(request.topology.ranks, request.backward, [&](int rank) {
    return std::make_unique<RingSchedule>(request, shards, rank);
  });
}

}  // namespace lcab::cp
