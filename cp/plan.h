// A plan: what one rank does to compute its share of a problem, as data. Strategies make plans,
// Prove() checks them, executors run them and a simulator can time them: all read the same steps.

#ifndef LCAB_CP_PLAN_H_
#define LCAB_CP_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "attention/problem.h"
#include "attention/tokens.h"

namespace lcab::cp {

enum class BufferRole {
  kIn,     // filled before the pass: this rank's part of Q, K, V, dOut
  kSaved,  // written by forward, read by backward: keeps its memory through both
  kOut,    // holds declared outputs after the pass: keeps its memory through both
  kTemp,   // lives within a pass; shares memory with others by liveness
};
std::string_view Name(BufferRole role);

// [rows, heads, dim], contiguous. Row statistics (LSE, delta) have dim 1, fp32, and are stored
// [heads, rows] (`head_major`).
struct Buffer {
  std::string name;
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t dim = 0;
  DType dtype = DType::kFloat32;
  BufferRole role = BufferRole::kTemp;
  bool head_major = false;
  int64_t offset = 0;  // bytes into the rank's slab, a multiple of kBufferAlignment

  int64_t bytes() const { return rows * heads * dim * SizeOf(dtype); }
  friend bool operator==(const Buffer&, const Buffer&) = default;
};
inline constexpr int64_t kBufferAlignment = 256;

// Part of a buffer: runs of rows x runs of heads, in order, all of dim. No run is empty or
// overlaps another, so an empty view has no runs of rows (or no runs of heads).
struct View {
  int buffer = -1;  // index into RankPlan::buffers; -1: the step does not use this operand
  std::vector<Interval> rows;
  std::vector<Interval> heads;

  bool used() const { return buffer >= 0; }
  friend bool operator==(const View&, const View&) = default;
};

// Sums over a view's runs.
int64_t RowsOf(const View& view);
int64_t HeadsOf(const View& view);
int64_t BytesOf(const Buffer& buffer, const View& view);
// Where a view lies in its buffer, in bytes from the buffer's start, when it is one contiguous
// piece in view order; nothing otherwise. An empty view is [0, 0).
std::optional<Interval> ContiguousBytes(const Buffer& buffer, const View& view);

// Stream 0 computes; others carry communication. Each communicator belongs to one stream.
using StreamIndex = int;
inline constexpr StreamIndex kComputeStream = 0;

// Operands of attention: row n of `q` holds token n of q_tokens, and so on; head n of `q` is head
// q_heads.begin + n. The mask is the problem's, restricted to these tokens and kv heads; every
// view is at most one run of rows and one of heads. Tokens are named apart from the views because
// an empty view has no identity of its own.
struct AttendTarget {
  int problem = 0;
  TokenSet q_tokens, k_tokens;
  Interval q_heads, kv_heads;

  friend bool operator==(const AttendTarget&, const AttendTarget&) = default;
};

// Overwrites out (the problem's dtype, or fp32 for a partial result) and lse with the result over
// exactly these keys; rows that see none of them: 0 and -inf.
struct Attend {
  AttendTarget target;
  View q, k, v, out, lse;
};

// Gradients of the pairs of `q` x `k`: reads the final lse, and delta or, for kernels that want it,
// the final out. Overwrites dq, dk and dv (the problem's dtype, or fp32 for partial results).
struct AttendBackward {
  AttendTarget target;
  View q, k, v, dout, lse, out, delta;  // one of out and delta is unused
  View dq, dk, dv;
};

// delta = sum_d dout * out of each row and head, in fp32.
struct Delta {
  View out, dout, delta;
};

// (out, lse) becomes the softmax-weighted union of itself and (part, part_lse), in fp32.
struct Merge {
  View out, lse, part, part_lse;
};

// to += from, in fp32; views of equal rows and heads.
struct Add {
  View to, from;
};

// Gather, scatter, permute, cast: row and head n of `from`, in view order, go to row and head n of
// `to`; views of equal rows and heads.
struct Copy {
  View to, from;
};

// Every element becomes `value`: 0, or -inf for an LSE.
struct Fill {
  View to;
  float value = 0;
};

struct Message {
  int peer = 0;
  View view;  // contiguous in memory
};

// What an exchange is as a whole, for transports that have a faster way for it and for cost models.
// Its meaning is that of its messages alone.
enum class Pattern { kPointToPoint, kAllGather, kAllToAll, kReduceScatter };
std::string_view Name(Pattern pattern);

// Sends and receives posted together: they complete together. Messages between two ranks on one
// communicator arrive in the order sent. Empty messages are left out by both sides.
struct Exchange {
  int communicator = 0;
  Pattern pattern = Pattern::kPointToPoint;
  std::vector<Message> sends, receives;
};

using Action = std::variant<Attend, AttendBackward, Delta, Merge, Add, Copy, Fill, Exchange>;
std::string_view Name(const Action& action);  // "Attend", ...

struct Step {
  StreamIndex stream = kComputeStream;
  // Earlier steps of this rank and pass, on other streams, that must be complete before this one
  // starts. Steps of one stream run in order. Ascending.
  std::vector<int> after;
  Action action;
};

// A tensor, or part of one, that a rank holds before a pass or leaves after it. Row n of the view
// holds token n of `tokens`; head n is heads.begin + n.
struct Held {
  Tensor tensor = Tensor::kQ;
  int problem = 0;
  TokenSet tokens;
  Interval heads;
  View view;
};

// One rank's plan for both passes over one table of buffers. Plans may hold several problems
// (microbatches): steps and holdings name theirs by index.
struct RankPlan {
  int rank = 0;
  int ranks = 1;
  int streams = 1;
  int communicators = 0;
  std::vector<Problem> problems;
  std::vector<Buffer> buffers;
  std::vector<Held> inputs;            // Q, K, V and, when there is a backward pass, dOut
  std::vector<Held> forward_outputs;   // out, LSE
  std::vector<Held> backward_outputs;  // dQ, dK, dV; empty when forward only was asked
  std::vector<Step> forward;
  std::vector<Step> backward;
  int64_t slab_bytes = 0;  // peak memory of both passes

  const std::vector<Step>& steps(Pass pass) const {
    return pass == Pass::kForward ? forward : backward;
  }
  const std::vector<Held>& outputs(Pass pass) const {
    return pass == Pass::kForward ? forward_outputs : backward_outputs;
  }
};

// "rank 2, backward, step 7 (Exchange on stream 1)": where an error is.
std::string Place(const RankPlan& plan, Pass pass, int step);
// "kv[64,128) heads [0,2)": a view in words.
std::string Describe(const RankPlan& plan, const View& view);

// Equal plans (of all ranks) have equal digests, on every machine.
uint64_t Digest(const std::vector<RankPlan>& plans);

}  // namespace lcab::cp

#endif  // LCAB_CP_PLAN_H_
