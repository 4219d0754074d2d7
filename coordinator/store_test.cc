#include "coordinator/store.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/schema.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "lcab/v1/fleet.pb.h"
#include "service/grpc_status.h"

namespace lcab::coordinator {
namespace {

std::string Text(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fmt::format("{}/store.{}", testing::TempDir(), info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~StoreTest() override { std::filesystem::remove_all(folder_); }

  std::string Path() const { return folder_ + "/lcab.db"; }
  std::unique_ptr<Store> OpenStore() const {
    auto store = Store::Open(Path());
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  std::string folder_;
};

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

absl::Status AddFact(Store& store, std::string_view name, std::string_view value) {
  return store.Write([&](Connection& db) {
    db.Execute("INSERT INTO facts VALUES (?, ?)", {name, value});
    return absl::OkStatus();
  });
}

int64_t CountFacts(Store& store) {
  int64_t count = -1;
  EXPECT_TRUE(store
                  .Read([&](Connection& db) {
                    count = db.QueryInt("SELECT COUNT(*) FROM facts WHERE name <> 'database_id'");
                    return absl::OkStatus();
                  })
                  .ok());
  return count;
}

TEST_F(StoreTest, WhatIsWrittenIsReadAndSurvivesReopening) {
  {
    auto store = OpenStore();
    ASSERT_TRUE(AddFact(*store, "a", "1").ok());
    EXPECT_EQ(CountFacts(*store), 1);
  }
  auto store = OpenStore();
  EXPECT_EQ(CountFacts(*store), 1);
}

TEST_F(StoreTest, ChangeThatReturnsAnErrorLeavesNothing) {
  auto store = OpenStore();
  const absl::Status status = store->Write([](Connection& db) {
    db.Execute("INSERT INTO facts VALUES ('a', '1')");
    return absl::FailedPreconditionError("no");
  });
  EXPECT_EQ(status, absl::FailedPreconditionError("no"));
  EXPECT_EQ(CountFacts(*store), 0);
  EXPECT_TRUE(store->Health().ok());
}

TEST_F(StoreTest, ChangeWhoseSqlFailsLeavesNothingAndStopsAtTheFirstError) {
  auto store = OpenStore();
  const absl::Status status = store->Write([](Connection& db) {
    db.Execute("INSERT INTO facts VALUES ('a', '1')");
    db.Execute("INSERT INTO facts VALUES ('a', 'a key that is there')");
    EXPECT_EQ(db.Execute("INSERT INTO facts VALUES ('b', '1')"), 0);
    EXPECT_FALSE(db.Query("SELECT 1").Next());
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(Text(status).find("UNIQUE"), std::string::npos) << status;
  EXPECT_EQ(CountFacts(*store), 0);
}

TEST_F(StoreTest, ChangesOfOneTransactionFailApart) {
  auto store = OpenStore();
  // The first change holds the writer until the others are queued: they share the next transaction.
  std::promise<void> hold;
  std::vector<std::future<absl::Status>> writes;
  std::promise<void> held;
  writes.push_back(std::async(std::launch::async, [&] {
    return store->Write([&](Connection&) {
      held.set_value();
      hold.get_future().wait();
      return absl::OkStatus();
    });
  }));
  held.get_future().wait();
  for (int i = 0; i < 8; ++i) {
    writes.push_back(std::async(std::launch::async, [&store, i] {
      return AddFact(*store, fmt::format("{}", i / 2), "v");  // every name twice
    }));
  }
  hold.set_value();
  int stored = 0;
  for (auto& write : writes) stored += write.get().ok() ? 1 : 0;
  EXPECT_EQ(stored, 1 + 4);
  EXPECT_EQ(CountFacts(*store), 4);
}

TEST_F(StoreTest, CommittedIsCalledOnceStoredAndNotAfterAnError) {
  auto store = OpenStore();
  int64_t seen = -1;
  ASSERT_TRUE(store
                  ->Write(
                      [](Connection& db) {
                        db.Execute("INSERT INTO facts VALUES ('a', '1')");
                        return absl::OkStatus();
                      },
                      [&] { seen = CountFacts(*store); })
                  .ok());
  EXPECT_EQ(seen, 1);
  bool called = false;
  EXPECT_FALSE(
      store->Write([](Connection&) { return absl::AbortedError("no"); }, [&] { called = true; })
          .ok());
  EXPECT_FALSE(called);
}

// SQLite before 3.51.3 can damage a WAL that two connections reset: only the writer may.
TEST_F(StoreTest, ReadersCanNeitherWriteNorCheckpoint) {
  auto store = OpenStore();
  ASSERT_TRUE(AddFact(*store, "a", "1").ok());
  const int64_t wal = store->wal_bytes();
  ASSERT_GT(wal, 0);
  for (const char* sql :
       {"INSERT INTO facts VALUES ('b', '1')", "DELETE FROM facts", "CREATE TABLE t (x)"}) {
    EXPECT_EQ(store
                  ->Read([&](Connection& db) {
                    db.Execute(sql);
                    return absl::OkStatus();
                  })
                  .code(),
              absl::StatusCode::kFailedPrecondition)
        << sql;
  }
  auto reader = Connection::Open(Path(), Connection::Access::kReadOnly);
  ASSERT_TRUE(reader.ok());
  {
    Rows rows = (*reader)->Query("PRAGMA wal_checkpoint(TRUNCATE)");
    EXPECT_FALSE(rows.Next() && rows.Int(0) == 0) << "the reader has checkpointed";
  }
  reader->reset();  // closing is where a last connection would checkpoint
  EXPECT_EQ(store->wal_bytes(), wal);
  EXPECT_EQ(CountFacts(*store), 1);
}

TEST_F(StoreTest, SnapshotOfAReaderDoesNotHoldTheWriter) {
  auto store = OpenStore();
  ASSERT_TRUE(store
                  ->Read([&](Connection& db) {
                    EXPECT_EQ(db.QueryInt("SELECT COUNT(*) FROM facts"), 1);
                    EXPECT_TRUE(AddFact(*store, "a", "1").ok());
                    EXPECT_EQ(db.QueryInt("SELECT COUNT(*) FROM facts"), 1);  // still its snapshot
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(CountFacts(*store), 1);
}

TEST_F(StoreTest, SecondOwnerOfAFileIsRefused) {
  auto store = OpenStore();
  const auto second = Store::Open(Path());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(Text(second.status()).find("in use by another"), std::string::npos);
  EXPECT_TRUE(Reader::Open(Path()).ok());
}

TEST_F(StoreTest, FileOfANewerVersionIsRefusedAndLeftAlone) {
  OpenStore();
  {
    auto db = Connection::Open(Path(), Connection::Access::kReadWrite);
    ASSERT_TRUE(db.ok());
    (*db)->ExecuteScript(fmt::format("PRAGMA user_version={}", SchemaVersion() + 1));
  }
  for (const absl::Status& status : {Store::Open(Path()).status(), Reader::Open(Path()).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(Text(status).find("newer lcab"), std::string::npos) << status;
  }
  auto db = Connection::Open(Path(), Connection::Access::kReadOnly);
  ASSERT_TRUE(db.ok());
  EXPECT_EQ((*db)->QueryInt("PRAGMA user_version"), SchemaVersion() + 1);
}

TEST_F(StoreTest, DatabaseOfAnotherProgramIsRefusedAndLeftAlone) {
  {
    auto db = Connection::Open(Path(), Connection::Access::kReadWrite);
    ASSERT_TRUE(db.ok());
    (*db)->ExecuteScript("PRAGMA journal_mode=DELETE; CREATE TABLE jobs (theirs TEXT)");
  }
  const std::string before = ReadBytes(Path());
  for (const absl::Status& status : {Store::Open(Path()).status(), Reader::Open(Path()).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  }
  EXPECT_EQ(ReadBytes(Path()), before);
}

TEST_F(StoreTest, FileThatIsNoDatabaseIsDataLossAndSaysWhatToDo) {
  std::ofstream(Path()) << "these are the notes of somebody, long enough to be a header of SQLite. "
                        << std::string(4096, 'x');
  const absl::Status status = Store::Open(Path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(Text(status).find("--db"), std::string::npos) << status;
}

TEST_F(StoreTest, DamagedPagesAreDataLossNotACrash) {
  {
    auto store = OpenStore();
    for (int i = 0; i < 2000; ++i) {
      ASSERT_TRUE(AddFact(*store, fmt::format("name {}", i), std::string(100, 'v')).ok());
    }
  }
  {
    std::fstream file(Path(), std::ios::in | std::ios::out | std::ios::binary);
    const auto size = static_cast<int64_t>(std::filesystem::file_size(Path()));
    for (int64_t at = 4096; at < size; at += 512) {
      file.seekp(at);
      file << "garbage garbage garbage garbage";
    }
  }
  auto store = Store::Open(Path());
  absl::Status status = store.status();
  if (store.ok()) {
    status = (*store)->Write([](Connection& db) {
      db.Execute("UPDATE facts SET value = value || 'x'");
      return absl::OkStatus();
    });
    EXPECT_EQ((*store)->Health().code(), absl::StatusCode::kDataLoss);
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
}

TEST_F(StoreTest, FullDiskIsResourceExhaustedAndTheStoreGoesOnOnceThereIsSpace) {
  auto store = OpenStore();
  const auto limit = [&](int64_t pages) {
    return store->Write([pages](Connection& db) {
      return db.QueryInt(fmt::format("PRAGMA max_page_count={}", pages)) > 0
                 ? absl::OkStatus()
                 : absl::InternalError("no limit");
    });
  };
  int64_t pages = 0;
  ASSERT_TRUE(store
                  ->Read([&](Connection& db) {
                    pages = db.QueryInt("PRAGMA page_count");
                    return absl::OkStatus();
                  })
                  .ok());
  ASSERT_TRUE(limit(pages + 2).ok());
  const absl::Status status = AddFact(*store, "big", std::string(100'000, 'v'));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(Text(status).find("full"), std::string::npos) << status;
  EXPECT_EQ(store->Health().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CountFacts(*store), 0);
  ASSERT_TRUE(limit(pages + 1000).ok());
  EXPECT_TRUE(AddFact(*store, "big", std::string(100'000, 'v')).ok());
  EXPECT_TRUE(store->Health().ok());
  EXPECT_EQ(CountFacts(*store), 1);
}

TEST_F(StoreTest, FolderThatIsNotThereIsNamed) {
  const absl::Status status = Store::Open(folder_ + "/nowhere/lcab.db").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(Text(status).find("nowhere"), std::string::npos);
  EXPECT_EQ(Reader::Open(folder_ + "/none.db").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(StoreTest, MessageThatCannotBeReadIsDataLoss) {
  auto store = OpenStore();
  ASSERT_TRUE(AddFact(*store, "a", "\xFF\xFF no message").ok());
  const absl::Status status = store->Read([](Connection& db) {
    v1::Worker worker;
    for (Rows rows = db.Query("SELECT value FROM facts WHERE name = 'a'"); rows.Next();) {
      rows.Parse(0, worker);
    }
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(Text(status).find("lcab.v1.Worker"), std::string::npos) << status;
}

TEST_F(StoreTest, WritersAndReadersOfManyThreadsSeeWholeChanges) {
  auto store = OpenStore();
  constexpr int kThreads = 4;
  constexpr int kWrites = 50;
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kWrites; ++i) {
        EXPECT_TRUE(store
                        ->Write([&](Connection& db) {
                          db.Execute("INSERT INTO facts VALUES (?, 'x')",
                                     {fmt::format("{}/{}/first", t, i)});
                          db.Execute("INSERT INTO facts VALUES (?, 'x')",
                                     {fmt::format("{}/{}/second", t, i)});
                          return absl::OkStatus();
                        })
                        .ok());
      }
    });
  }
  std::thread reader([&] {
    while (!stop) EXPECT_EQ(CountFacts(*store) % 2, 0);
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  reader.join();
  EXPECT_EQ(CountFacts(*store), 2 * kThreads * kWrites);
  EXPECT_EQ(store->metrics().changes, kThreads * kWrites);
}

std::set<std::string> FilesIn(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename());
  }
  return names;
}

TEST_F(StoreTest, ReadingChangesNothingAndLeavesNothingBehind) {
  ASSERT_TRUE(AddFact(*OpenStore(), "a", "1").ok());
  std::filesystem::remove(Path() + "-lock");
  const std::set<std::string> files = FilesIn(folder_);
  const std::string bytes = ReadBytes(Path());
  {
    const auto store = Store::OpenReadOnly(Path());
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(CountFacts(**store), 1);
    EXPECT_EQ(AddFact(**store, "b", "1").code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(FilesIn(folder_), files);
  EXPECT_EQ(ReadBytes(Path()), bytes);
}

TEST_F(StoreTest, ReadingWorksWhileItIsWrittenAndSeesWhatIs) {
  const auto writer = OpenStore();
  const auto reader = Store::OpenReadOnly(Path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_TRUE(AddFact(*writer, "a", "1").ok());
  EXPECT_EQ(CountFacts(**reader), 1);
  ASSERT_TRUE(AddFact(*writer, "b", "1").ok());
  EXPECT_EQ(CountFacts(**reader), 2);
}

TEST_F(StoreTest, ReadingNeedsNoFolderThatCanBeWritten) {
  ASSERT_TRUE(AddFact(*OpenStore(), "a?#%20", "1").ok());
  const std::string odd = folder_ + "/odd ?#%20.db";  // characters with a meaning in URIs
  std::filesystem::rename(Path(), odd);
  std::filesystem::permissions(folder_, std::filesystem::perms(0555));
  EXPECT_EXIT(
      {
        // Permissions do not stop root; for anyone else this fails, and need not succeed.
        if (setuid(65534) != 0) std::cerr << "not root\n";
        const auto store = Store::OpenReadOnly(odd);
        std::exit(store.ok() && CountFacts(**store) == 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        if (setuid(65534) != 0) std::cerr << "not root\n";
        const absl::Status status = Store::Open(odd).status();
        std::cerr << status;
        std::exit(service::ErrorReason(status) == kDatabaseFailed ? 0 : 1);
      },
      testing::ExitedWithCode(0), "check the permissions");
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
}

TEST_F(StoreTest, WhatIsNoDatabaseOfOursGetsNoLockBesideIt) {
  std::ofstream(Path()) << std::string(4096, 'x');
  EXPECT_EQ(service::ErrorReason(Store::Open(Path()).status()), kDatabaseFailed);
  EXPECT_EQ(FilesIn(folder_), std::set<std::string>{"lcab.db"});
}

TEST_F(StoreTest, OneOfTwoThatMakeTheSameFileAtOnceIsRefusedInWords) {
  constexpr int kOwners = 4;
  std::vector<std::future<absl::StatusOr<std::unique_ptr<Store>>>> opening;
  for (int i = 0; i < kOwners; ++i) {
    opening.push_back(std::async(std::launch::async, [this] { return Store::Open(Path()); }));
  }
  std::vector<absl::StatusOr<std::unique_ptr<Store>>> stores;
  for (auto& store : opening) stores.push_back(store.get());
  int owners = 0;
  for (const auto& store : stores) {
    if (store.ok()) {
      ++owners;
      EXPECT_TRUE(AddFact(**store, "a", "1").ok());
    } else {
      EXPECT_NE(Text(store.status()).find("in use by another"), std::string::npos)
          << store.status();
      EXPECT_EQ(service::ErrorReason(store.status()), kDatabaseLocked);
    }
  }
  EXPECT_EQ(owners, 1);
}

void LimitFiles(rlim_t bytes) {
  const rlimit limit{.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &limit);
}

// The limit is the process's: in a child.
TEST_F(StoreTest, FileThatMayNotGrowIsAnErrorThatTheStoreRemembers) {
  EXPECT_EXIT(
      {
        std::signal(SIGXFSZ, SIG_IGN);
        auto store = OpenStore();
        LimitFiles(64 << 10);
        const absl::Status status = AddFact(*store, "big", std::string(1'000'000, 'v'));
        std::cerr << status;
        const bool told = status.code() == absl::StatusCode::kUnavailable &&
                          store->FirstFailure() == status && store->Health() == status;
        // A transaction without changes shows nothing.
        (void)store->Write([](Connection&) { return absl::OkStatus(); });
        const bool stays = !store->Health().ok();
        LimitFiles(RLIM_INFINITY);
        const bool works = store->Probe().ok() && store->Health().ok();
        std::_Exit(told && stays && works && !store->FirstFailure().ok() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "ulimit -f");
}

}  // namespace
}  // namespace lcab::coordinator
