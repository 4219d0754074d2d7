// `all_gather`: every rank gathers all keys and values, some kv heads at a time, and attends to
// them at once; the backward pass gathers again and sends each gradient to its owner, who sums. As
// in the training of Llama 3 (arXiv 2407.21783, section 3.3.2).

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

namespace lcab::cp {
namespace {

constexpr int kGatherCommunicator = 0;
constexpr int kReduceCommunicator = 1;

struct Shards {
  std::vector<TokenSet> q, k;
  TokenSet all_keys;  // as gathered: rank by rank
};

// For two ranks or more. A round is a group of kv heads. The next group is gathered while one is
// attended to, and gradients are on their way while the next group's are computed; two groups are
// alive at a time, so that memory holds two of each buffer.
class AllGatherSchedule : public RankSchedule {
 public:
  AllGatherSchedule(const PlanRequest& request, const Shards& shards, int rank)
      : problem_(request.problem),
        shards_(shards),
        ranks_(request.topology.ranks),
        rank_(rank),
        wants_delta_(request.kernel.wants_delta),
        gather_stream_(request.overlap ? 1 : kComputeStream),
        reduce_stream_(request.overlap && request.backward ? 2 : kComputeStream) {
    frame_.rank = rank;
    frame_.ranks = ranks_;
    frame_.streams = std::max(gather_stream_, reduce_stream_) + 1;
    frame_.communicators = request.backward ? 2 : 1;
    frame_.problems = {problem_};
    int64_t begin = 0;
    for (const TokenSet& shard : shards.k) {
      key_rows_.push_back({begin, begin + shard.rows()});
      begin += shard.rows();
    }
    const Problem& p = problem_;
    q_ = DeclareOwn(frame_.inputs, Tensor::kQ, "q", BufferRole::kIn);
    k_ = DeclareOwn(frame_.inputs, Tensor::kK, "k", BufferRole::kIn);
    v_ = DeclareOwn(frame_.inputs, Tensor::kV, "v", BufferRole::kIn);
    out_ = DeclareOwn(frame_.forward_outputs, Tensor::kOut, "out", BufferRole::kOut);
    lse_ = DeclareOwn(frame_.forward_outputs, Tensor::kLse, "lse", BufferRole::kOut);
    if (request.backward) {
      dout_ = DeclareOwn(frame_.inputs, Tensor::kDOut, "dout", BufferRole::kIn);
      dq_ = DeclareOwn(frame_.backward_outputs, Tensor::kDQ, "dq", BufferRole::kOut);
      dk_ = DeclareOwn(frame_.backward_outputs, Tensor::kDK, "dk", BufferRole::kOut);
      dv_ = DeclareOwn(frame_.backward_outputs, Tensor::kDV, "dv", BufferRole::kOut);
      if (wants_delta_) {
        delta_ = DeclareRowStat(frame_, "delta", OwnQueries().rows(), p.q_heads, BufferRole::kTemp);
      }
    }
    const int64_t per_group = GetInteger(request.options, "heads_per_group");
    for (int64_t head = 0; head < p.kv_heads; head += per_group) {
      DeclareGroup({head, std::min(head + per_group, p.kv_heads)}, request.backward);
    }
  }

  const RankPlan& frame() const override { return frame_; }
  int Rounds(Pass) const override { return static_cast<int>(groups_.size()); }

  void EmitRound(Pass pass, int round, StepSink& sink) const override {
    const auto group = static_cast<size_t>(round);
    if (group == 0) Gather(groups_.front(), sink);
    if (group == 0 && pass == Pass::kBackward && wants_delta_) {
      sink.Emit(kComputeStream, Delta{.out = All(frame_, out_),
                                      .dout = All(frame_, dout_),
                                      .delta = All(frame_, delta_)});
    }
    const bool last = group + 1 == groups_.size();
    if (!last) Gather(groups_[group + 1], sink);
    if (pass == Pass::kForward) {
      AttendTo(groups_[group], sink);
      return;
    }
    AttendBackwardTo(groups_[group], sink);
    SendGradients(groups_[group], sink);
    if (group > 0) SumGradients(groups_[group - 1], sink);
    if (last) SumGradients(groups_[group], sink);
  }

 private:
  struct Group {
    Interval kv_heads, q_heads;
    // Buffers: all keys and values, their gradients, and what other ranks computed of ours.
    int k, v;
    int dk = -1, dv = -1, dk_parts = -1, dv_parts = -1;
  };

  const TokenSet& OwnQueries() const { return shards_.q[static_cast<size_t>(rank_)]; }
  const TokenSet& OwnKeys() const { return shards_.k[static_cast<size_t>(rank_)]; }
  Interval KeyRows(int rank) const { return key_rows_[static_cast<size_t>(rank)]; }

  // This rank's part of a tensor, declared and held.
  int DeclareOwn(std::vector<Held>& list, Tensor tensor, std::string name, BufferRole role) {
    const Problem::Extent extent = problem_.ExtentOf(tensor);
    const bool by_key = tensor == Tensor::kK || tensor == Tensor::kV || tensor == Tensor::kDK ||
                        tensor == Tensor::kDV;
    const TokenSet& tokens = by_key ? OwnKeys() : OwnQueries();
    const int buffer = tensor == Tensor::kLse ? DeclareRowStat(frame_, std::move(name),
                                                               tokens.rows(), extent.heads, role)
                                              : Declare(frame_, {.name = std::move(name),
                                                                 .rows = tokens.rows(),
                                                                 .heads = extent.heads,
                                                                 .dim = extent.dim,
                                                                 .dtype = problem_.dtype,
                                                                 .role = role});
    list.push_back({tensor, 0, tokens, {0, extent.heads}, All(frame_, buffer)});
    return buffer;
  }

  void DeclareGroup(Interval kv_heads, bool backward) {
    const Problem& p = problem_;
    const int64_t ratio = p.heads_per_kv();
    const size_t index = groups_.size();
    const auto declare = [&](const char* what, int64_t rows, int64_t dim, DType dtype) {
      return Declare(frame_, {.name = fmt::format("{}_{}", what, index),
                              .rows = rows,
                              .heads = kv_heads.size(),
                              .dim = dim,
                              .dtype = dtype});
    };
    const int64_t all = p.k_tokens(), parts = (ranks_ - 1) * OwnKeys().rows();
    Group group{.kv_heads = kv_heads,
                .q_heads = {kv_heads.begin * ratio, kv_heads.end * ratio},
                .k = declare("all_k", all, p.qk_head_dim, p.dtype),
                .v = declare("all_v", all, p.v_head_dim, p.dtype)};
    if (backward) {
      group.dk = declare("all_dk", all, p.qk_head_dim, DType::kFloat32);
      group.dv = declare("all_dv", all, p.v_head_dim, DType::kFloat32);
      group.dk_parts = declare("dk_parts", parts, p.qk_head_dim, DType::kFloat32);
      group.dv_parts = declare("dv_parts", parts, p.v_head_dim, DType::kFloat32);
    }
    groups_.push_back(group);
  }

  // Our heads of the group go into their place among all, and from there to everybody.
  void Gather(const Group& group, StepSink& sink) const {
    Exchange exchange{.communicator = kGatherCommunicator, .pattern = Pattern::kAllGather};
    for (const auto& [own, all] : {std::pair(k_, group.k), {v_, group.v}}) {
      const View place = RowsPart(frame_, all, KeyRows(rank_));
      sink.Emit(kComputeStream,
                Copy{.to = place, .from = Part(own, {0, OwnKeys().rows()}, group.kv_heads)});
      for (int peer = 0; peer < ranks_; ++peer) {
        if (peer == rank_) continue;
        AddMessage(exchange.sends, peer, place);
        AddMessage(exchange.receives, peer, RowsPart(frame_, all, KeyRows(peer)));
      }
    }
    sink.Emit(gather_stream_, std::move(exchange));
  }

  AttendTarget TargetOf(const Group& group) const {
    return {.problem = 0,
            .q_tokens = OwnQueries(),
            .k_tokens = shards_.all_keys,
            .q_heads = group.q_heads,
            .kv_heads = group.kv_heads};
  }

  // The group's query heads of one of our tensors.
  View OwnHeads(int buffer, const Group& group) const {
    return Part(buffer, {0, OwnQueries().rows()}, group.q_heads);
  }

  void AttendTo(const Group& group, StepSink& sink) const {
    sink.Emit(kComputeStream, Attend{.target = TargetOf(group),
                                     .q = OwnHeads(q_, group),
                                     .k = All(frame_, group.k),
                                     .v = All(frame_, group.v),
                                     .out = OwnHeads(out_, group),
                                     .lse = OwnHeads(lse_, group)});
  }

  void AttendBackwardTo(const Group& group, StepSink& sink) const {
    sink.Emit(kComputeStream,
              AttendBackward{.target = TargetOf(group),
                             .q = OwnHeads(q_, group),
                             .k = All(frame_, group.k),
                             .v = All(frame_, group.v),
                             .dout = OwnHeads(dout_, group),
                             .lse = OwnHeads(lse_, group),
                             .out = wants_delta_ ? View{} : OwnHeads(out_, group),
                             .delta = wants_delta_ ? OwnHeads(delta_, group) : View{},
                             .dq = OwnHeads(dq_, group),
                             .dk = All(frame_, group.dk),
                             .dv = All(frame_, group.dv)});
  }

  // Where the part of the n-th other rank lies.
  View PartOf(int parts, int n) const {
    const int64_t rows = OwnKeys().rows();
    return RowsPart(frame_, parts, {n * rows, (n + 1) * rows});
  }

  void SendGradients(const Group& group, StepSink& sink) const {
    Exchange exchange{.communicator = kReduceCommunicator, .pattern = Pattern::kReduceScatter};
    for (const auto& [all, parts] :
         {std::pair(group.dk, group.dk_parts), {group.dv, group.dv_parts}}) {
      int n = 0;
      for (int peer = 0; peer < ranks_; ++peer) {
        if (peer == rank_) continue;
        AddMessage(exchange.sends, peer, RowsPart(frame_, all, KeyRows(peer)));
        AddMessage(exchange.receives, peer, PartOf(parts, n++));
      }
    }
    sink.Emit(reduce_stream_, std::move(exchange));
  }

  // In the order of ranks, ours first: the same sum in every run.
  void SumGradients(const Group& group, StepSink& sink) const {
    struct Sum {
      int all, parts, own;
    };
    for (const Sum& sum : {Sum{group.dk, group.dk_parts, dk_}, {group.dv, group.dv_parts, dv_}}) {
      const View total = RowsPart(frame_, sum.all, KeyRows(rank_));
      for (int n = 0; n + 1 < ranks_; ++n) {
        sink.Emit(kComputeStream, Add{.to = total, .from = PartOf(sum.parts, n)});
      }
      sink.Emit(kComputeStream,
                Copy{.to = Part(sum.own, {0, OwnKeys().rows()}, group.kv_heads), .from = total});
    }
  }

  const Problem problem_;
  const Shards& shards_;
  const int ranks_;
  const int rank_;
  const bool wants_delta_;
  const StreamIndex gather_stream_, reduce_stream_;
  std::vector<Interval> key_rows_;  // of each rank, among all keys

  RankPlan frame_;
  int q_ = -1, k_ = -1, v_ = -1, out_ = -1, lse_ = -1;
  int dout_ = -1, delta_ = -1, dq_ = -1, dk_ = -1, dv_ = -1;
  std::vector<Group> groups_;
};

class AllGather : public Strategy {
 public:
  std::string name() const override { return "all_gather"; }
  std::string description() const override {
    return "every rank gathers all K and V, some kv heads at a time; gradients go back summed";
  }
  std::vector<Parameter> parameters() const override {
    return {{.name = "heads_per_group",
             .kind = ParameterKind::kInteger,
             .default_value = Value{int64_t{1}},
             .description = "kv heads gathered at a time; two groups are in memory",
             .minimum = 1},
            {.name = "sharding",
             .kind = ParameterKind::kText,
             .default_value = Value{std::string("contiguous")},
             .description = "which tokens a rank owns: one range, or an early and a late chunk of "
                            "the sequence or of each document",
             .choices = {"contiguous", "zigzag", "zigzag_document"}}};
  }
  int64_t BytesSent(const PlanRequest& request, int rank, Pass pass) const override {
    return AllGatherBytesSent(request.problem, request.topology.ranks, rank, pass);
  }

 private:
  absl::Status DoSupports(const PlanRequest& request) const override {
    return request.topology.ranks == 1 ? absl::OkStatus() : RequireFloat32Gradients(request);
  }
  std::vector<RankPlan> DoMakePlans(const PlanRequest& request) const override {
    const int ranks = request.topology.ranks;
    if (ranks == 1) return MakeSinglePlan(request);
    const Mask& mask = *request.problem.mask;
    const std::string& sharding = GetText(request.options, "sharding");
    Shards shards;
    if (sharding == "contiguous") {
      shards.q = ShardContiguous(mask.q_tokens(), ranks);
      shards.k = ShardContiguous(mask.k_tokens(), ranks);
    } else {
      const Documents documents = sharding == "zigzag_document"
                                      ? FindDocuments(mask)
                                      : Documents{{mask.q_tokens()}, {mask.k_tokens()}};
      shards.q = ShardZigzag(documents.q_lengths, ranks);
      shards.k = ShardZigzag(documents.k_lengths, ranks);
    }
    for (const TokenSet& shard : shards.k) shards.all_keys = shards.all_keys.Concatenate(shard);
    return BuildPlans(ranks, request.backward, [&](int rank) {
      return std::make_unique<AllGatherSchedule>(request, shards, rank);
    });
  }
};

}  // namespace

void Register_all_gather(StrategyRegistry& registry) {
  registry.Add(std::make_unique<AllGather>());
}

}  // namespace lcab::cp
