#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/random.h"
#include "comm/recorder.h"
#include "core/torch.h"
#include "train/session.h"

namespace coeus::train {
namespace {

std::string text_of(std::int64_t words) {
  const RandomKey key = make_random_key(1, 0, "text");
  std::string text;
  for (std::int64_t i = 0; i < words; ++i) {
    const auto length = 1 + random_bits(key, 2 * i) % 7;
    for (std::uint32_t c = 0; c < length; ++c)
      text += static_cast<char>('a' + (random_bits(key, 2 * i + 1) >> c) % 9);
    text += i % 11 == 10 ? '\n' : ' ';
  }
  return text;
}

struct StopAt : Observer {
  explicit StopAt(Step step) : step(step) {}
  Decision after(Step s, const StepResult&) override {
    if (s != step) return {};
    return {.save = true, .stop = Outcome::saved};
  }
  Step step;
};

class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    core::set_cpu_threads(1);
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = files::Path(::testing::TempDir()) / (std::string("session_") + info->name());
    files::remove_all(folder_);
    files::make_directories(folder_);
    files::write_text(folder_ / "text.txt", text_of(9000));
  }

  std::string yaml(const std::string& run) const {
    return fmt::format(
        "run: {{directory: {0}/{1}, cache: {0}/cache}}\n"
        "model: {{{2}}}\n"
        "tokenizer: {{path: byte}}\n"
        "data: {{sources: ['{0}/text.txt'], sequence_length: 32, threads: 2}}\n"
        "training: {{steps: 20, global_batch_size: 8, micro_batch_size: 1}}\n"
        "optimizer: {{lr: 1e-3}}\n"
        "lr_schedule: {{warmup_steps: 5}}\n"
        "evaluation: {{every: 10, holdout: 0.1, steps: 2}}\n"
        "checkpoint: {{every: 0}}\n"
        "metrics: {{every: 1, console: false}}\n",
        folder_.string(), run, model_);
  }
  std::string model_ =
      "name: llama, dim: 32, num_layers: 2, num_heads: 4, num_kv_heads: 2, ffn_dim: 64, "
      "tie_embeddings: true";

  struct Result {
    Outcome outcome = Outcome::finished;
    std::string hash;
  };
  using Prepare = std::function<void(Session&)>;
  using Wrap = std::function<void(comm::Connection&)>;
  Result train(const std::string& run, int ranks, std::vector<std::string> overrides = {},
               Step stop_at = 0, const Prepare& prepare = {}, const Wrap& wrap = {}) {
    const LoadedJob job = parse_job(yaml(run), "test.yaml", overrides, {.world_size = ranks});
    const Registry registry = builtin_registry();
    Result result;
    comm::run_threads(ranks, {}, [&](const World& world, comm::Connection connection) {
      if (wrap) wrap(connection);
      SessionOptions options{.job = job,
                             .world = world,
                             .registry = &registry,
                             .log = make_logger({.level = "off"}),
                             .build = Json::object()};
      options.connection = std::move(connection);
      Session session(std::move(options));
      if (stop_at > 0) session.observers().add(std::make_unique<StopAt>(stop_at));
      if (prepare) prepare(session);
      const Outcome outcome = coeus::train::run(session);
      const std::string hash = session.state_hash();
      if (world.rank == 0) result = {outcome, hash};
    });
    return result;
  }

  // Last loss of each step in metrics.jsonl.
  std::map<std::int64_t, double> losses(const std::string& run) const {
    std::map<std::int64_t, double> out;
    std::ifstream in(folder_ / run / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      const Json j = parse_json(line, "metrics.jsonl");
      if (j.contains("loss")) out[j["step"]] = j["loss"];
    }
    return out;
  }

  files::Path folder_;
};

TEST_F(SessionTest, ten_steps_a_resume_and_ten_more_are_twenty_bit_for_bit) {
  for (const std::string compute : {"fp32", "bf16"}) {
    for (const int ranks : {1, 4}) {
      const std::string name = compute + std::to_string(ranks);
      const std::vector<std::string> precision = {"precision.compute=" + compute};
      const Result whole = train("whole" + name, ranks, precision);
      EXPECT_EQ(train("parts" + name, ranks, precision, 10).outcome, Outcome::saved);
      const Result parts = train("parts" + name, ranks, precision);
      EXPECT_EQ(parts.outcome, Outcome::finished);
      EXPECT_EQ(parts.hash, whole.hash) << name;
      EXPECT_EQ(losses("parts" + name), losses("whole" + name)) << name;
    }
  }
}

TEST_F(SessionTest, a_run_goes_on_under_any_number_of_ranks) {
  train("one", 1);
  Step stop = 5;
  for (const auto& [ranks, extra] :
       std::vector<std::pair<int, std::vector<std::string>>>{{4, {}},
                                                             {2, {"training.micro_batch_size=2"}},
                                                             {1, {}},
                                                             {4, {"parallel.dp_replicate=2"}}}) {
    train("many", ranks, extra, stop < 20 ? stop : 0);
    stop += 5;
  }
  const auto reference = losses("one"), many = losses("many");
  ASSERT_EQ(many.size(), 20u);
  for (const auto& [step, loss] : reference)
    EXPECT_NEAR(many.at(step) / loss, 1.0, step == 1 ? 1e-6 : 1e-5) << step;
}

// What a layout is worth in a session: loaders, evaluation, norms, checkpoints.
const std::vector<std::pair<int, std::vector<std::string>>> kLayouts = {
    {8, {"parallel.pp=2", "parallel.tp=2", "parallel.dp_shard=2"}},
    {8, {"parallel.dp_shard=8"}},
    {8, {"parallel.tp=4", "parallel.cp=2"}},
    {8, {"parallel.pp=4", "parallel.dp_shard=2", "parallel.pp_schedule=zero_bubble"}},
    {16,
     {"parallel.pp=2", "parallel.cp=2", "parallel.tp=2", "parallel.dp_replicate=2",
      "parallel.pp_schedule=zbv", "parallel.pp_stages_per_rank=2", "parallel.cp_style=ulysses"}},
    {1, {}}};

TEST_F(SessionTest, norms_token_counts_and_validation_losses_are_the_same_on_every_layout) {
  const auto fields_of = [&](const std::string& run) {
    std::map<std::string, double> out;
    std::ifstream in(folder_ / run / "metrics.jsonl");
    for (std::string line; std::getline(in, line);) {
      const Json j = parse_json(line, "metrics.jsonl");
      for (const char* key : {"loss", "grad_norm", "valid_tokens", "validation_loss",
                              "validation_tokens", "tokens", "lr"}) {
        if (j.contains(key) && !j[key].is_null())
          out[fmt::format("{} of step {}", key, j["step"].get<int>())] = j[key];
      }
    }
    return out;
  };
  train("one", 1, {"data.packing=documents"});
  const auto reference = fields_of("one");
  ASSERT_EQ(reference.size(), 5u * 20 + 2u * 2);
  for (std::size_t i = 0; i + 1 < kLayouts.size(); ++i) {
    const auto& [ranks, extra] = kLayouts[i];
    std::vector<std::string> overrides = extra;
    overrides.push_back("data.packing=documents");
    const std::string run = "layout" + std::to_string(i);
    train(run, ranks, overrides);
    const auto fields = fields_of(run);
    ASSERT_EQ(fields.size(), reference.size()) << run;
    for (const auto& [name, value] : reference)
      EXPECT_NEAR(fields.at(name), value, 1e-5 * std::abs(value)) << run << ": " << name;
  }
}

TEST_F(SessionTest, a_checkpoint_of_one_layout_opens_on_every_other_bit_for_bit) {
  using Hashed = Session::Hashed;
  train("one", 1);
  const auto reference = losses("one");
  for (std::size_t writer : {0u, 4u}) {
    const std::string source = "source" + std::to_string(writer);
    train(source, kLayouts[writer].first, kLayouts[writer].second, 10);
    const auto state = [&](std::size_t reader, const std::string& run) {
      std::string hash;
      std::vector<std::string> overrides = kLayouts[reader].second;
      overrides.push_back("training.steps=10");  // nothing is left to do
      train(run, kLayouts[reader].first, overrides, 0, [&](Session& s) {
        const std::string mine = s.state_hash(Hashed::weights_and_moments);
        if (s.is_first_rank()) hash = mine;
      });
      return hash;
    };
    const std::string written = state(writer, source);
    for (std::size_t reader = 0; reader < kLayouts.size(); ++reader) {
      const std::string run = source + "_to" + std::to_string(reader);
      std::filesystem::copy(folder_ / source, folder_ / run,
                            std::filesystem::copy_options::recursive);
      EXPECT_EQ(state(reader, run), written) << writer << " to " << reader;
      train(run, kLayouts[reader].first, kLayouts[reader].second);
      const auto mine = losses(run);
      ASSERT_EQ(mine.size(), 20u);
      for (const auto& [step, loss] : reference)
        EXPECT_NEAR(mine.at(step) / loss, 1.0, 1e-5) << run << " step " << step;
    }
  }
}

TEST_F(SessionTest, experts_are_saved_and_read_under_any_spread_in_fp32_and_bf16) {
  model_ =
      "name: deepseek_v3, dim: 32, num_layers: 3, num_heads: 4, q_lora_rank: 16, kv_lora_rank: 12, "
      "qk_nope_head_dim: 8, qk_rope_head_dim: 4, v_head_dim: 8, num_dense_layers: 1, ffn_dim: 48, "
      "num_experts: 8, top_k: 2, expert_ffn_dim: 24";
  const std::vector<std::pair<int, std::vector<std::string>>> spreads = {
      {4, {"parallel.ep=4"}},
      {4, {"parallel.ep=2", "parallel.pp=2"}},
      {2, {"parallel.ep=2", "parallel.tp=2"}},
      {1, {}}};
  for (const std::string compute : {"fp32", "bf16"}) {
    std::string hash, bias;
    for (std::size_t i = 0; i < spreads.size(); ++i) {
      std::vector<std::string> overrides = spreads[i].second;
      overrides.push_back("precision.compute=" + compute);
      overrides.push_back(fmt::format("training.steps={}", 4 + i));
      train(compute, spreads[i].first, overrides, 0, [&](Session& s) {
        const std::string mine = s.state_hash(Session::Hashed::weights_and_moments);
        if (!s.is_first_rank() || i == 0) return;
        EXPECT_EQ(mine, hash) << compute << ", spread " << i;
      });
      overrides.back() = fmt::format("training.steps={}", 4 + i);
      train(compute, spreads[i].first, overrides, 0, [&](Session& s) {
        const std::string mine = s.state_hash(Session::Hashed::weights_and_moments);
        if (s.is_first_rank()) hash = mine;
        for (const auto& buffer : s.model().buffers())
          EXPECT_GT(buffer.values.abs().max().item<float>(), 0) << buffer.segment.fqn;
      });
    }
  }
}

TEST_F(SessionTest, a_schedule_from_a_file_runs_with_the_micro_batches_it_is_made_for) {
  files::write_text(folder_ / "three.csv", "0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
  const std::vector<std::string> overrides = {
      "parallel.pp=2", "parallel.pp_schedule=" + (folder_ / "three.csv").string(),
      "training.steps=2"};
  auto with = [&](const std::string& batch) {
    auto all = overrides;
    all.push_back("training.global_batch_size=" + batch);
    return all;
  };
  train("file", 2, with("3"));
  train("one", 1, {"training.steps=2", "training.global_batch_size=3"});
  const auto reference = losses("one"), mine = losses("file");
  for (const auto& [step, loss] : reference) EXPECT_NEAR(mine.at(step) / loss, 1.0, 1e-5);
  EXPECT_THROW(train("other", 2, with("4")), ConfigError);
}

TEST_F(SessionTest, only_pointers_inside_unit_storages_are_sent) {
  auto recording = std::make_shared<comm::Recording>();
  std::vector<std::pair<const void*, const void*>> memory;
  std::mutex mutex;
  train(
      "run", 4, {"training.steps=3", "training.micro_batch_size=2"}, 0,
      [&](Session& session) {
        {
          std::lock_guard lock(mutex);
          for (const auto& range : session.model().memory()) memory.push_back(range);
        }
        session.host().barrier();
        if (session.is_first_rank()) recording->clear();
        session.host().barrier();
      },
      [&](comm::Connection& connection) {
        connection.device = comm::make_recorder(std::move(connection.device), recording);
      });
  std::size_t seen = 0;
  for (const auto& r : recording->records()) {
    if (std::max(r.input_bytes, r.output_bytes) <= 64) continue;  // scalars of the step
    for (const auto& [pointer, bytes] :
         {std::pair{r.input, r.input_bytes}, std::pair{r.output, r.output_bytes}}) {
      if (pointer == nullptr) continue;
      const auto* begin = static_cast<const char*>(pointer);
      const bool inside = std::any_of(memory.begin(), memory.end(), [&](const auto& m) {
        return begin >= static_cast<const char*>(m.first) &&
               begin + bytes <= static_cast<const char*>(m.second);
      });
      EXPECT_TRUE(inside) << r.group << " sends " << bytes << " bytes from outside every unit";
      ++seen;
    }
  }
  EXPECT_GT(seen, 100u);
}

TEST_F(SessionTest, weights_can_be_initialised_from_another_runs_checkpoint) {
  train("first", 2);
  const auto checkpoint = (folder_ / "first/checkpoints/step-00000020").string();
  std::string start, source;
  train("second", 1, {"checkpoint.initialize_from=" + checkpoint, "training.steps=1"}, 0,
        [&](Session& s) { start = s.state_hash(); });
  train("first", 4, {"training.steps=21"}, 0, [&](Session& s) {
    const std::string hash = s.state_hash();
    if (s.is_first_rank()) source = hash;
  });
  EXPECT_EQ(start, source);
}

TEST_F(SessionTest, what_must_not_change_is_refused_and_named) {
  train("run", 1, {}, 3);
  EXPECT_THROW(
      {
        try {
          train("run", 1, {"run.seed=7", "data.sequence_length=16"});
        } catch (const ConfigError& e) {
          EXPECT_NE(std::string(e.what()).find("run.seed"), std::string::npos) << e.what();
          EXPECT_NE(std::string(e.what()).find("data.sequence_length"), std::string::npos)
              << e.what();
          throw;
        }
      },
      ConfigError);
  EXPECT_THROW(train("run", 1, {"run.resume=never"}), ConfigError);
}

TEST_F(SessionTest, a_directory_that_cannot_be_written_fails_before_training) {
  files::write_text(folder_ / "file", "not a folder");
  EXPECT_THROW(train("file/run", 2), ConfigError);
}

TEST_F(SessionTest, steps_that_are_not_finite_are_skipped_or_end_the_run) {
  auto poison = [](Session& s) {
    struct Poison : Observer {
      Session* session;
      Decision after(Step step, const StepResult&) override {
        if (step == 2) {
          at::NoGradGuard no_grad;
          session->optimizer().shards()[0].compute.fill_(std::numeric_limits<float>::infinity());
          session->model().publish();
        }
        return {};
      }
    };
    auto observer = std::make_unique<Poison>();
    observer->session = &s;
    s.observers().add(std::move(observer));
  };
  EXPECT_EQ(train("stop", 2, {}, 0, poison).outcome, Outcome::non_finite);
  const std::string events = files::read_text(folder_ / "stop/events.jsonl");
  EXPECT_NE(events.find("non_finite_stop"), std::string::npos);
  EXPECT_EQ(train("skip", 2, {"guards.non_finite=skip", "training.steps=4"}, 0, poison).outcome,
            Outcome::finished);
  const auto state = TrainState::from_json(
      parse_json(files::read_text(folder_ / "skip/checkpoints/step-00000004/train_state.json"),
                 "train_state.json"),
      "");
  EXPECT_EQ(state.skipped_steps, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(state.optimizer_count, 2);
}

TEST_F(SessionTest, no_python_is_mapped_into_a_training_process) {
  train("run", 1, {"training.steps=1"});
  std::ifstream in("/proc/self/maps");
  const std::string maps(std::istreambuf_iterator<char>(in), {});
  EXPECT_NE(maps.find("libtorch_cpu"), std::string::npos);
  EXPECT_EQ(maps.find("libpython"), std::string::npos);
}

}  // namespace
}  // namespace coeus::train
