// For tests of sampling: a trial with a clock of its own, and ranks as threads.

#ifndef LCAB_MEASUREMENT_SAMPLING_FOR_TEST_H_
#define LCAB_MEASUREMENT_SAMPLING_FOR_TEST_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "measurement/rendezvous_for_test.h"
#include "measurement/sampler.h"

namespace lcab::measurement {

// Iterations of a given length on a clock of its own; notes what it is asked to do.
class FakeContestant : public Contestant {
 public:
  explicit FakeContestant(absl::Duration iteration, int rank = 0)
      : iteration_(iteration), findings_(rank) {}

  absl::Status SetInputs(int inputs, absl::Time) override {
    inputs_set.push_back(inputs);
    return absl::OkStatus();
  }
  absl::StatusOr<double> RunIteration(int64_t calls, absl::Time) override {
    ++iterations;
    calls_seen.insert(calls);
    if (iterations == fails_at) return absl::InternalError("kernel failed");
    now += iteration_ * calls + surroundings;
    if (iterations == no_time_at) {
      findings_.Fail(Part::kHonesty, "no positive time");
      return 0.0;
    }
    return absl::ToDoubleSeconds(iteration_) * (1 + spread * ((iterations * 7) % 11 - 5) / 5.0);
  }
  absl::Status Examine(int64_t iteration, int inputs, absl::Time) override {
    examined.emplace_back(iteration, inputs);
    return absl::OkStatus();
  }
  absl::Status Keep(int slot, int inputs, absl::Time) override {
    kept[slot] = {iterations - 1, inputs};
    return absl::OkStatus();
  }
  absl::StatusOr<Conditions> ReadConditions() override {
    Conditions conditions;
    conditions.expected_clock_hz = 3e9;
    conditions.clock_hz = iterations - 1 < slow_from || iterations - 1 >= slow_until ? 3e9 : 1.8e9;
    return conditions;
  }
  void Abort(std::string_view reason) override { abort_reason = reason; }
  Findings& findings() override { return findings_; }
  double shortest_sample_seconds() const override { return shortest; }

  absl::Time now = absl::UnixEpoch();
  absl::Duration surroundings = absl::ZeroDuration();
  double spread = 0, shortest = 0;
  int64_t fails_at = -1, no_time_at = -1;
  int64_t slow_from = 0, slow_until = 0;  // iterations with a clock at 60%
  int64_t iterations = 0;
  std::set<int64_t> calls_seen;
  std::string abort_reason;
  std::vector<int> inputs_set;
  std::vector<std::pair<int64_t, int>> examined;
  std::map<int, std::pair<int64_t, int>> kept;  // slot -> iteration, inputs

 private:
  absl::Duration iteration_;
  Findings findings_;
};

inline SamplerOptions OptionsFor(FakeContestant& contestant) {
  SamplerOptions options;
  options.now = [&contestant] { return contestant.now; };
  options.pause = [&contestant](absl::Duration pause) { contestant.now += pause; };
  return options;
}

// Samples on one rank until done.
inline absl::Status SampleAlone(Sampler& sampler) {
  while (true) {
    const absl::StatusOr<bool> done = sampler.RunBatch();
    if (!done.ok()) return done.status();
    if (*done) return sampler.KeepLast(absl::InfiniteFuture());
  }
}

// Samples on several ranks, a thread each; returns each rank's status.
inline std::vector<absl::Status> SampleTogether(
    std::vector<std::unique_ptr<FakeContestant>>& contestants,
    const std::function<void(int rank, SamplerOptions&)>& adjust,
    const std::function<void(int rank, const Sampler&)>& look) {
  FakeRendezvous rendezvous;
  const int ranks = static_cast<int>(contestants.size());
  std::vector<absl::Status> statuses(contestants.size());
  std::vector<std::thread> threads(contestants.size());
  for (int rank = 0; rank < ranks; ++rank) {
    threads[static_cast<size_t>(rank)] = std::thread([&, rank] {
      FakeContestant& contestant = *contestants[static_cast<size_t>(rank)];
      Votes votes(rank, ranks, "t0", &rendezvous);
      SamplerOptions options = OptionsFor(contestant);
      adjust(rank, options);
      Sampler sampler(options, contestant, votes);
      statuses[static_cast<size_t>(rank)] = SampleAlone(sampler);
      look(rank, sampler);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

inline std::vector<std::unique_ptr<FakeContestant>> FourContestants(absl::Duration iteration) {
  std::vector<std::unique_ptr<FakeContestant>> contestants;
  contestants.reserve(4);
  for (int rank = 0; rank < 4; ++rank) {
    contestants.push_back(std::make_unique<FakeContestant>(iteration, rank));
  }
  return contestants;
}

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_SAMPLING_FOR_TEST_H_
