// What clients ask: lists, results, errors.

#include <string>
#include <thread>
#include <vector>

#include "coordinator/test_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/grpc_status.h"

namespace lcab::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST_F(ServiceTest, ListsArePagedAndForeignTokensRefused) {
  Start();
  for (int i = 0; i < 5; ++i) Submit("1 tiled tiled tiled");
  v1::ListJobsRequest request;
  request.set_page_size(2);
  std::vector<std::string> names;
  do {
    v1::ListJobsResponse page;
    ASSERT_TRUE(Call(*jobs_, &v1::Jobs::Stub::ListJobs, request, page).ok());
    EXPECT_LE(page.jobs_size(), 2);
    for (const v1::Job& job : page.jobs()) names.push_back(job.name());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(names, ElementsAre("jobs/5", "jobs/4", "jobs/3", "jobs/2", "jobs/1"));

  v1::ListTrialsRequest trials;
  trials.set_parent("jobs/3");
  trials.set_page_size(2);
  v1::ListTrialsResponse page;
  ASSERT_TRUE(Call(*jobs_, &v1::Jobs::Stub::ListTrials, trials, page).ok());
  EXPECT_THAT(page.trials(), SizeIs(2));
  const std::string token = page.next_page_token();
  trials.set_page_token(token);
  ASSERT_TRUE(Call(*jobs_, &v1::Jobs::Stub::ListTrials, trials, page).ok());
  EXPECT_EQ(page.trials(0).name(), "jobs/3/trials/2");
  EXPECT_EQ(page.next_page_token(), "");
  trials.set_parent("jobs/2");
  for (const std::string& wrong : {token, std::string("x"), std::string("!!!")}) {
    trials.set_page_token(wrong);
    EXPECT_EQ(Call(*jobs_, &v1::Jobs::Stub::ListTrials, trials, page).code(),
              absl::StatusCode::kInvalidArgument);
  }
  trials.set_page_token("");
  trials.set_page_size(-1);
  EXPECT_EQ(Call(*jobs_, &v1::Jobs::Stub::ListTrials, trials, page).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ServiceTest, ResultsAreFilteredNewestJobFirst) {
  Start();
  TestWorker worker(address(), {});
  worker.TakeWelcome();
  worker.Beat();
  for (int i = 0; i < 2; ++i) {
    const v1::Job job = Submit("1 tiled ref");
    const v1::Assign assign = worker.TakeAssign();
    for (const int trial : assign.trials()) {
      worker.Tell(
          Ended(assign, trial, MakeResult(trial == 0 ? v1::OUTCOME_OK : v1::OUTCOME_WRONG_RESULT)));
    }
    worker.Tell(Over(assign));
  }
  const auto query = [&](const v1::ResultFilter& filter) {
    v1::QueryResultsRequest request;
    *request.mutable_filter() = filter;
    request.set_page_size(1);
    std::vector<std::string> names;
    do {
      v1::QueryResultsResponse page;
      const absl::Status status = Call(*results_, &v1::Results::Stub::QueryResults, request, page);
      EXPECT_TRUE(status.ok()) << status;
      for (const v1::Trial& trial : page.trials()) names.push_back(trial.name());
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return names;
  };
  v1::ResultFilter filter;
  EXPECT_THAT(query(filter), ElementsAre("jobs/2/trials/0", "jobs/2/trials/1", "jobs/1/trials/0",
                                         "jobs/1/trials/1"));
  filter.set_kernel("ref");
  EXPECT_THAT(query(filter), ElementsAre("jobs/2/trials/1", "jobs/1/trials/1"));
  filter.set_job("jobs/1");
  EXPECT_THAT(query(filter), ElementsAre("jobs/1/trials/1"));
  filter.set_outcome(v1::OUTCOME_OK);
  EXPECT_THAT(query(filter), SizeIs(0));
}

TEST_F(ServiceTest, ErrorsNameWhatIsNotThere) {
  Start();
  v1::GetJobRequest request;
  v1::Job job;
  request.set_name("jobs/7");
  absl::Status status = Call(*jobs_, &v1::Jobs::Stub::GetJob, request, job);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(service::ErrorReason(status), "JOB_NOT_FOUND");
  request.set_name("trials/7");
  status = Call(*jobs_, &v1::Jobs::Stub::GetJob, request, job);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(status), HasSubstr("jobs/7"));
  v1::GetTrialRequest trial_request;
  v1::Trial trial;
  trial_request.set_name("jobs/7/trials/0");
  EXPECT_EQ(service::ErrorReason(Call(*jobs_, &v1::Jobs::Stub::GetTrial, trial_request, trial)),
            "TRIAL_NOT_FOUND");
  v1::DrainWorkerRequest drain;
  v1::Worker worker;
  drain.set_name("workers/w9");
  EXPECT_EQ(service::ErrorReason(Call(*fleet_, &v1::Fleet::Stub::DrainWorker, drain, worker)),
            "WORKER_NOT_FOUND");
  v1::SubmitJobRequest submit;
  submit.set_suite_text("nonsense");
  EXPECT_THAT(Text(Call(*jobs_, &v1::Jobs::Stub::SubmitJob, submit, job)), HasSubstr("suite:1:1"));
  submit.set_suite_text(std::string((1 << 20) + 1, 'x'));
  EXPECT_EQ(Call(*jobs_, &v1::Jobs::Stub::SubmitJob, submit, job).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ServiceTest, SameRequestIdIsTheSameJobFromManyClientsAtOnce) {
  Start();
  std::vector<std::string> names(8);
  std::vector<std::thread> clients;
  for (std::string& name : names) {
    clients.emplace_back([&] { name = Submit("1 tiled", "r-1").name(); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_THAT(names, testing::Each(names.front()));
}

}  // namespace
}  // namespace lcab::coordinator
