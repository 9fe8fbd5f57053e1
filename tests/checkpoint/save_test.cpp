#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "checkpoint/manifest.h"
#include "tests/checkpoint/support.h"

namespace coeus::checkpoint {
namespace {

std::vector<std::string> save_dealt(const files::Path& directory, std::int64_t step, Deal how,
                                    int size) {
  return run_ranks(size, [&](const Peers& peers) {
    auto request = sample_request(directory, step);
    const Holding holding(request.sets, how, peers.rank, peers.size);
    request.runs = holding.runs;
    save(request, peers);
  });
}

TEST(Save, AnyLayoutReadsWhatAnyLayoutWrote) {
  for (const Deal how : {Deal::even, Deal::blocks}) {
    for (int writers = 1; writers <= 5; ++writers) {
      Folder folder;
      for (const auto& e : save_dealt(folder.path(), 7, how, writers)) ASSERT_EQ(e, "");
      const auto found = find_checkpoints(folder.path());
      ASSERT_EQ(found.size(), 1u);
      EXPECT_EQ(verify(found[0].path).faults, std::vector<std::string>());
      for (int readers = 1; readers <= 5; ++readers) {
        const Deal other = readers % 2 ? how : (how == Deal::even ? Deal::blocks : Deal::even);
        const Verify policy = readers % 2 ? Verify::full : Verify::own;
        for (const auto& e : run_ranks(readers, [&](const Peers& peers) {
               expect_reads_back(found[0].path, other, peers, policy);
             })) {
          EXPECT_EQ(e, "");
        }
      }
    }
  }
}

TEST(Save, FilesDoNotDependOnTheRanksThatWroteThem) {
  Folder one, four;
  ASSERT_EQ(save_dealt(one.path(), 7, Deal::even, 1)[0], "");
  ASSERT_EQ(save_dealt(four.path(), 7, Deal::blocks, 4)[0], "");
  auto names = all_files(one / "step-00000007");
  EXPECT_EQ(names, all_files(four / "step-00000007"));
  EXPECT_EQ(std::count(names.begin(), names.end(), "model-00002-of-00002.safetensors"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "optimizer/master-00001-of-00002.safetensors"),
            1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "model.safetensors.index.json"), 1);
  for (const auto& name : names) {
    if (name == kManifestName) continue;
    EXPECT_EQ(files::read_text(one / "step-00000007" / name),
              files::read_text(four / "step-00000007" / name))
        << name;
  }
}

TEST(Save, ASetThatFitsOneFileHasNoNumberAndNoIndex) {
  Folder folder;
  auto request = sample_request(folder.path(), 3);
  request.max_file_bytes = 5'000'000'000;
  const Holding holding(request.sets, Deal::even, 0, 1);
  request.runs = holding.runs;
  const auto path = save(request, Peers{});
  EXPECT_EQ(all_files(path), (std::vector<std::string>{
                                 "config.json", "manifest.json", "model.safetensors",
                                 "optimizer/exp_avg.safetensors", "optimizer/master.safetensors",
                                 "tokenizer.json", "train_state.json"}));
}

TEST(Save, TensorsLargerThanARunAreWrittenInPieces) {
  Folder folder;
  SaveRequest request = sample_request(folder.path(), 1);
  const std::int64_t bytes = static_cast<std::int64_t>(kMaxRunBytes) + 1000;
  request.sets = {{"model", {{"big", DType::U8, {bytes}}, {"small", DType::U8, {10}}}}};
  std::vector<std::byte> memory(bytes + 10);
  for (std::size_t i = 0; i < memory.size(); ++i)
    memory[i] = static_cast<std::byte>(i * 7 + i / 999);
  const std::span<const std::byte> all(memory);
  request.runs = {{"model", "big", 0, all.first(bytes)}, {"model", "small", 0, all.last(10)}};
  request.max_file_bytes = 5'000'000'000;
  const auto path = save(request, Peers{});
  const auto file = *Manifest::load(path).find("model.safetensors");
  ASSERT_EQ(file.runs.size(), 3u);  // header, a full piece, the rest with the small tensor
  EXPECT_EQ(file.runs[1].size, kMaxRunBytes);
  EXPECT_EQ(file.runs[2].size, 1010u);
  EXPECT_EQ(verify(path).faults, std::vector<std::string>());
  std::vector<std::byte> read(bytes);
  Reader::open(path).read({{"model", "big", 0, read, DType::U8}}, Peers{}, Verify::full);
  EXPECT_TRUE(std::equal(read.begin(), read.end(), memory.begin()));
}

TEST(Save, ATensorGivenByNoRankIsNamedOnEveryRank) {
  Folder folder;
  const auto errors = run_ranks(3, [&](const Peers& peers) {
    auto request = sample_request(folder.path(), 7);
    const Holding holding(request.sets, Deal::even, peers.rank, peers.size);
    request.runs = holding.runs;
    std::erase_if(request.runs, [](const WriteRun& r) { return r.tensor == "norm.weight"; });
    save(request, peers);
  });
  for (const auto& e : errors) {
    EXPECT_NE(e.find("norm.weight were given by no rank"), std::string::npos) << e;
  }
  EXPECT_TRUE(find_checkpoints(folder.path()).empty());
}

TEST(Save, ATensorGivenTwiceIsNamedWithTheRankThatGaveItAgain) {
  Folder folder;
  const auto errors = run_ranks(3, [&](const Peers& peers) {
    auto request = sample_request(folder.path(), 7);
    const Holding holding(request.sets, Deal::even, peers.rank, peers.size);
    const Holding all(request.sets, Deal::even, 0, 1);
    request.runs = holding.runs;
    if (peers.rank == 1) {
      for (const auto& r : all.runs) {
        if (r.tensor == "scalar" && r.set == "model") request.runs.push_back(r);
      }
    }
    save(request, peers);
  });
  for (const auto& e : errors) EXPECT_NE(e.find("scalar were given twice"), std::string::npos) << e;
}

TEST(Save, AFailureOfOneRankIsThrownOnAllAndTheNextSaveSucceeds) {
  Folder folder;
  const auto errors = run_ranks(4, [&](const Peers& peers) {
    auto request = sample_request(folder.path(), 7);
    const Holding holding(request.sets, Deal::even, peers.rank, peers.size);
    request.runs = holding.runs;
    request.at = [&](const std::string& point) {
      if (point == "written" && peers.rank == 2) throw FileError("the disk is on fire");
    };
    save(request, peers);
  });
  for (const auto& e : errors) EXPECT_EQ(e, "cannot save step 7: rank 2: the disk is on fire");
  EXPECT_EQ(files::list(folder.path()), std::vector<std::string>{"step-00000007.tmp-0"});
  for (const auto& e : save_dealt(folder.path(), 7, Deal::even, 4)) EXPECT_EQ(e, "");
  EXPECT_EQ(files::list(folder.path()),
            (std::vector<std::string>{"step-00000007", "step-00000007.tmp-0"}));
}

TEST(Save, RanksThatWouldSaveOtherTensorsAreNamed) {
  Folder folder;
  const auto errors = run_ranks(2, [&](const Peers& peers) {
    auto request = sample_request(folder.path(), 7);
    if (peers.rank == 1) request.sets[0].tensors[0].shape = {8, 50};
    save(request, peers);
  });
  for (const auto& e : errors) {
    EXPECT_EQ(e, "cannot save step 7: rank 1 would save other tensors than rank 0");
  }
}

TEST(Save, ARunThatDoesNotFitItsTensorIsRefusedBeforeAnythingIsWritten) {
  Folder folder;
  const std::vector<std::byte> bytes(64);
  for (const WriteRun& run :
       {WriteRun{"model", "norm.weight", 4, bytes}, WriteRun{"model", "norm.weight", -1, bytes},
        WriteRun{"model", "norm.weight", 0, std::span(bytes).first(3)},
        WriteRun{"model", "nothing", 0, bytes},
        WriteRun{"optimizer/none", "norm.weight", 0, bytes}}) {
    auto request = sample_request(folder.path(), 7);
    request.runs = {run};
    EXPECT_NE(error_of([&] { save(request, Peers{}); }), "");
  }
  EXPECT_TRUE(files::list(folder.path()).empty());
}

TEST(Save, AFolderThatCannotBeWrittenIsNamed) {
  Folder folder;
  files::write_text(folder / "file", "");
  const auto error = error_of([&] { save_alone(folder / "file" / "checkpoints", 7); });
  EXPECT_NE(error.find("cannot save step 7: "), std::string::npos) << error;
  EXPECT_NE(error.find("file/checkpoints"), std::string::npos) << error;
}

TEST(Save, SavingAStepAgainReplacesIt) {
  Folder folder;
  const auto path = save_alone(folder.path(), 7);
  flip_byte(path / "config.json", 3);
  save_alone(folder.path(), 7);
  EXPECT_EQ(verify(path).faults, std::vector<std::string>());
  retain(folder.path(), {});
  EXPECT_EQ(files::list(folder.path()), std::vector<std::string>{"step-00000007"});
}

// Runs `body` in a child process; returns how that ended (waitpid's status).
int in_child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      body();
      _exit(0);
    } catch (const CheckpointError&) {
      _exit(4);
    } catch (...) {
      _exit(1);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(Save, KillingItAnywhereLeavesThePreviousCheckpointLoadable) {
  for (const std::string point : {"created", "written", "manifest", "renamed"}) {
    Folder folder;
    save_alone(folder.path(), 10);
    const int status = in_child([&] {
      auto request = sample_request(folder.path(), 20);
      const Holding holding(request.sets, Deal::even, 0, 1, "later");
      request.runs = holding.runs;
      request.at = [&](const std::string& at) {
        if (at == point) raise(SIGKILL);
      };
      save(request, Peers{});
    });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << point;

    std::vector<std::string> passed_over;
    const auto found = find_checkpoints(folder.path(), &passed_over);
    if (point == "renamed") {
      ASSERT_EQ(found.size(), 2u);
      EXPECT_EQ(verify(found[1].path).faults, std::vector<std::string>());
      EXPECT_TRUE(passed_over.empty());
    } else {
      ASSERT_EQ(found.size(), 1u) << point;
      ASSERT_EQ(passed_over.size(), 1u) << point;
      EXPECT_NE(passed_over[0].find("step-00000020.tmp-0: unfinished"), std::string::npos);
    }
    EXPECT_EQ(found[0].step, 10);
    expect_reads_back(found[0].path, Deal::blocks, Peers{});
    save_alone(folder.path(), 20);  // the run goes on over what is left
    EXPECT_EQ(find_checkpoints(folder.path()).size(), 2u) << point;
    retain(folder.path(), {});
    EXPECT_EQ(files::list(folder.path()).size(), 2u) << point;
  }
}

TEST(Save, AFullDiskIsAnErrorAndLeavesThePreviousCheckpoint) {
  Folder folder;
  save_alone(folder.path(), 10);
  const int status = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{600, 600};
    setrlimit(RLIMIT_FSIZE, &limit);
    save_alone(folder.path(), 20);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 4);
  const auto found = find_checkpoints(folder.path());
  ASSERT_EQ(found.size(), 1u);
  expect_reads_back(found[0].path, Deal::even, Peers{});
}

}  // namespace
}  // namespace coeus::checkpoint
