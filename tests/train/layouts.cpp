#include "tests/train/layouts.h"

#include <cmath>
#include <mutex>

#include "base/error.h"
#include "base/files.h"
#include "base/random.h"
#include "models/llama/kind.h"
#include "parallel/context/context.h"
#include "train/registry.h"

namespace coeus::testing {
namespace {

constexpr std::int64_t kLength = 16;

// Where the documents of sample n begin, its end last.
std::vector<std::int64_t> document_borders(const LayoutRun& run, std::int64_t n) {
  if (!run.documents || n % 3 == 0) return {0, kLength};
  return n % 3 == 1 ? std::vector<std::int64_t>{0, 5, kLength}
                    : std::vector<std::int64_t>{0, 3, 6, kLength};
}

// Sample n as a function of n alone; the valid part differs from sample to sample, from 1 to most.
std::vector<Batch> micro_batches(const LayoutRun& run, std::int64_t step,
                                 const comm::Groups& groups, std::int64_t vocab) {
  const std::int64_t degree = groups.mesh().degree("batch"), cp = groups.mesh().degree("cp");
  const std::int64_t local = run.global_batch / degree;
  Tensor here;
  if (cp > 1)
    here =
        at::tensor(parallel::context_token_index(kLength, cp, groups.coordinate("cp")), at::kLong);
  const auto part = [&](const Tensor& t) { return here.defined() ? t.index_select(1, here) : t; };
  std::vector<Batch> out;
  for (std::int64_t first = 0; first < local; first += run.micro_batch) {
    Tensor tokens = at::zeros({run.micro_batch, kLength}, at::kLong),
           labels = at::zeros_like(tokens), positions = at::zeros_like(tokens);
    std::vector<std::int32_t> starts = {0};
    for (std::int64_t i = 0; i < run.micro_batch; ++i) {
      const std::int64_t n =
          step * run.global_batch + groups.coordinate("batch") * local + first + i;
      const RandomKey key = make_random_key(7, n, "tokens");
      for (std::int64_t t = 0; t <= kLength; ++t) {
        const auto token = static_cast<std::int64_t>(uniform(key, t) * static_cast<double>(vocab));
        if (t < kLength) tokens[i][t] = token;
        if (t > 0) labels[i][t - 1] = t - 1 <= n % kLength ? token : -100;
      }
      const auto borders = document_borders(run, n);
      for (std::size_t d = 0; d + 1 < borders.size(); ++d) {
        positions[i].slice(0, borders[d], borders[d + 1]) = at::arange(borders[d + 1] - borders[d]);
        starts.push_back(static_cast<std::int32_t>(i * kLength + borders[d + 1]));
      }
    }
    Batch batch{.tokens = part(tokens),
                .labels = part(labels),
                .positions = part(positions),
                .token_index = here,
                .sequence_length = kLength,
                .step_sequences = run.global_batch};
    if (run.documents) {
      batch.cu_seqlens = at::tensor(starts, at::kInt);
      batch.max_document = kLength;
    }
    out.push_back(std::move(batch));
  }
  return out;
}

using BySegment = std::map<std::string, std::vector<float>>;

// Puts every rank's runs of `pick(shard)` together; rank 0's return holds all.
BySegment collect(const std::vector<FlatShard>& shards,
                  const std::function<Tensor(const FlatShard&)>& pick, comm::Communicator& host) {
  std::string mine;
  for (const auto& shard : shards) {
    const Tensor values = pick(shard).cpu().contiguous();
    for (const auto& r : shard.runs) {
      const Segment& segment = shard.section->segments[r.segment].segment;
      mine += fmt::format("{} {} {} {}\n", segment.fqn, segment.num_elements(), r.segment_offset,
                          r.count);
      mine.append(reinterpret_cast<const char*>(values.data_ptr<float>() + r.shard_offset),
                  r.count * sizeof(float));
    }
  }
  BySegment all;
  for (const auto& part : comm::all_gather_bytes(host, mine)) {
    for (std::size_t at = 0; at < part.size();) {
      const auto end = part.find('\n', at);
      char fqn[256];
      long long total = 0, offset = 0, count = 0;
      COEUS_ASSERT(std::sscanf(part.c_str() + at, "%255s %lld %lld %lld", fqn, &total, &offset,
                               &count) == 4);
      auto& into = all[fqn];
      into.resize(total);
      std::memcpy(into.data() + offset, part.data() + end + 1, count * sizeof(float));
      at = end + 1 + count * sizeof(float);
    }
  }
  return all;
}

std::string hash_of(const BySegment& weights) {
  std::string all;
  for (const auto& [fqn, values] : weights) {
    all += fqn;
    all.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  return files::hash_hex(all);
}

}  // namespace

models::LlamaConfig small_llama(bool tied) {
  models::LlamaConfig c;
  c.dim = 32;
  c.num_layers = kSmallLayers;
  c.num_heads = kSmallHeads;
  c.num_kv_heads = 2;
  c.ffn_dim = 72;
  c.vocab_size = 61;
  c.tie_embeddings = tied;
  return c;
}

std::vector<const char*> small_model_names() {
  return {"llama", "llama_tied"};
}

bool has_experts(const std::string& model) {
  return !model.starts_with("llama");
}

std::unique_ptr<ModelConfig> small_model(const LayoutRun& run) {
  auto config = std::make_unique<models::LlamaModelConfig>();
  config->config = small_llama(run.model == "llama_tied");
  config->config.num_layers = run.layers;
  return config;
}

LayoutResult run_rank(const LayoutRun& run, const World& world, comm::Connection& connection) {
  const auto config = small_model(run);
  comm::Groups groups(Mesh(world.size, run.sizes), *connection.device);
  const parallel::ApplyOptions apply{
      .plan = config->plan(),
      .parallel = {.sequence_parallel = run.sequence_parallel,
                   .reshard_after_forward = run.reshard,
                   .accumulate = run.accumulate,
                   .cp_style = run.cp_style},
      .execution = {.recompute = run.recompute, .recompute_every = run.recompute_every},
      .stages = parallel::split_for(run.schedule, groups.mesh().degree("pp"), run.stages_per_rank,
                                    config->spec(), config->plan(), kLength),
      .compute = run.compute};
  parallel::ParallelModel model(builtin_registry().build_model(*config), apply, groups);
  model.initialise(42);
  optim::AdamW optimizer(model.shards(), {}, model.segments());
  parallel::Pipeline pipeline(
      model, {.schedule = run.schedule, .stages_per_rank = run.stages_per_rank}, groups);
  train::TrainStep step(model, pipeline, optimizer, groups, at::kCPU, 1.0);
  LayoutResult result;
  result.initial_hash = hash_of(collect(
      model.shards(), [](const FlatShard& s) { return s.master; }, *connection.host));
  for (std::int64_t s = 0; s < run.steps; ++s) {
    auto batches = micro_batches(run, s, groups, config->vocab_size());
    run.before_step(s, world.rank, batches);
    const train::StepResult r = step.run(batches, run.lr);
    result.losses.push_back(r.loss);
    result.grad_norms.push_back(r.grad_norm);
    if (s == 0)
      result.gradients = collect(
          model.shards(), [](const FlatShard& f) { return f.grad; }, *connection.host);
  }
  result.weights = collect(
      model.shards(), [](const FlatShard& f) { return f.master; }, *connection.host);
  return result;
}

LayoutResult run_threads(const LayoutRun& run) {
  core::set_cpu_threads(1);
  LayoutResult result;
  comm::run_threads(run.ranks, {}, [&](const World& world, comm::Connection connection) {
    connection.device = run.wrap(std::move(connection.device));
    LayoutResult mine = run_rank(run, world, connection);
    if (world.rank == 0) result = std::move(mine);
  });
  return result;
}

std::string compare_gradients(const LayoutResult& reference, const LayoutResult& other,
                              double bound) {
  if (reference.gradients.size() != other.gradients.size()) return "different segments";
  for (const auto& [fqn, g] : reference.gradients) {
    const auto found = other.gradients.find(fqn);
    if (found == other.gradients.end() || found->second.size() != g.size())
      return fqn + ": missing or of another size";
    double norm = 0, difference = 0, maximum = 0, max_difference = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double d = double{found->second[i]} - g[i];
      norm += double{g[i]} * g[i];
      difference += d * d;
      maximum = std::max(maximum, std::abs(double{g[i]}));
      max_difference = std::max(max_difference, std::abs(d));
    }
    if (!(std::sqrt(difference) <= bound * std::sqrt(norm)))
      return fmt::format("{}: off by {} of its norm {}", fqn, std::sqrt(difference),
                         std::sqrt(norm));
    if (!(max_difference <= bound * maximum))
      return fmt::format("{}: off by {} of its maximum {}", fqn, max_difference, maximum);
  }
  return "";
}

std::string compare_losses(const LayoutResult& reference, const LayoutResult& other) {
  if (reference.losses.size() != other.losses.size()) return "different numbers of steps";
  for (std::size_t i = 0; i < reference.losses.size(); ++i) {
    const double relative =
        std::abs(other.losses[i] - reference.losses[i]) / std::abs(reference.losses[i]);
    if (!(relative <= (i == 0 ? 1e-6 : 1e-5)))
      return fmt::format("step {}: {} against {}, off by {}", i + 1, other.losses[i],
                         reference.losses[i], relative);
  }
  return "";
}

}  // namespace coeus::testing
