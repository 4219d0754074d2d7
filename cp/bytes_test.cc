#include "cp/bytes.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace lcab::cp {
namespace {

Problem MakeProblem(int64_t q_tokens, int64_t k_tokens, int64_t q_heads, int64_t kv_heads,
                    int64_t qk, int64_t v, DType dtype) {
  return {.q_heads = q_heads,
          .kv_heads = kv_heads,
          .qk_head_dim = qk,
          .v_head_dim = v,
          .dtype = dtype,
          .mask = std::make_shared<const Mask>(Mask::FromSlices(q_tokens, k_tokens, {}).value())};
}

// The published forms for even splits: P ranks of n tokens, b bytes an element, gradients that
// travel in 4.
TEST(Bytes, EvenSplitsGiveThePublishedForms) {
  constexpr int64_t n = 6, b = 2, g = 4;
  struct Heads {
    int64_t q, kv, qk, v;
  };
  for (const Heads& h :
       {Heads{16, 8, 5, 5}, Heads{8, 8, 3, 7}, Heads{8, 2, 4, 4}, Heads{8, 1, 2, 9}}) {
    for (const int64_t P : {1, 2, 4, 8}) {
      const Problem p = MakeProblem(n * P, n * P, h.q, h.kv, h.qk, h.v, DType::kBFloat16);
      const int64_t ukv = n * h.kv * (h.qk + h.v);
      const int64_t m = std::max(h.kv, P);
      const int64_t kv_g = h.kv < P ? g : b;
      for (int rank = 0; rank < P; ++rank) {
        const int ranks = static_cast<int>(P);
        EXPECT_EQ(RingBytesSent(p, ranks, rank, Pass::kForward), (P - 1) * ukv * b);
        EXPECT_EQ(RingBytesSent(p, ranks, rank, Pass::kBackward),
                  P == 1 ? 0 : (P - 1) * ukv * b + P * ukv * g);
        EXPECT_EQ(AllGatherBytesSent(p, ranks, rank, Pass::kForward), (P - 1) * ukv * b);
        EXPECT_EQ(AllGatherBytesSent(p, ranks, rank, Pass::kBackward), (P - 1) * ukv * (b + g));
        EXPECT_EQ(UlyssesBytesSent(p, ranks, rank, Pass::kForward) * P,
                  (P - 1) * n * (h.q + m) * (h.qk + h.v) * b);
        EXPECT_EQ(UlyssesBytesSent(p, ranks, rank, Pass::kBackward) * P,
                  (P - 1) * n * (h.q * b * h.v + h.q * b * h.qk + m * (h.qk + h.v) * kv_g));
      }
    }
  }
}

// Case S4 and case C4 (a), their stated bytes.
TEST(Bytes, MatchTheStatedValues) {
  EXPECT_EQ(RingBytesSent(MakeProblem(2048, 2048, 16, 4, 192, 128, DType::kBFloat16), 4, 0,
                          Pass::kForward),
            3'932'160);
  EXPECT_EQ(UlyssesBytesSent(MakeProblem(8192, 8192, 16, 2, 128, 128, DType::kBFloat16), 8, 0,
                             Pass::kForward),
            11'010'048);
}

// By hand, for 7 keys and 5 queries on 3 ranks: keys 3, 2, 2 and queries 2, 2, 1. 4 bytes an
// element.
TEST(Bytes, UnevenSplitsCountTheTokensThatARankPassesOn) {
  const Problem p = MakeProblem(5, 7, 6, 3, 2, 1, DType::kFloat32);
  const int64_t kv = 3 * (2 + 1) * 4;  // bytes of one token's K and V
  // A ring rank never sends the shard that its successor began with.
  EXPECT_EQ(RingBytesSent(p, 3, 0, Pass::kForward), (7 - 2) * kv);
  EXPECT_EQ(RingBytesSent(p, 3, 2, Pass::kForward), (7 - 3) * kv);
  EXPECT_EQ(RingBytesSent(p, 3, 2, Pass::kBackward), (7 - 3) * kv + 7 * kv);
  EXPECT_EQ(AllGatherBytesSent(p, 3, 0, Pass::kForward), 2 * 3 * kv);
  EXPECT_EQ(AllGatherBytesSent(p, 3, 1, Pass::kBackward), 2 * 2 * kv + (7 - 2) * kv);
  // Ulysses, rank 2: 1 query and 2 keys; 2 query heads and 1 kv head go to each of 2 ranks, and out
  // of 4 other queries' 2 heads comes back.
  EXPECT_EQ(UlyssesBytesSent(p, 3, 2, Pass::kForward),
            (2 * (1 * 2 * 2 + 2 * 1 * 3) + 4 * 2 * 1) * 4);
  EXPECT_EQ(UlyssesBytesSent(p, 3, 2, Pass::kBackward),
            (2 * 1 * 2 * 1 + 4 * 2 * 2 + 5 * 1 * 3) * 4);
}

}  // namespace
}  // namespace lcab::cp
