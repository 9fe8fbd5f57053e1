#include "tests/train/layouts.h"

#include <cmath>
#include <mutex>

#include "base/error.h"
#include "base/files.h"
#include "base/random.h"
#include "models/llama/kind.h"
#include "models/llama/model.h"

namespace coeus::testing {
namespace {

constexpr std::int64_t kLength = 16;

// Sample n as a function of n alone; the valid part differs from sample to sample.
std::vector<Batch> micro_batches(const LayoutRun& run, std::int64_t step, std::int64_t coordinate,
                                 std::int64_t degree, std::int64_t vocab) {
  const std::int64_t local = run.global_batch / degree;
  std::vector<Batch> out;
  for (std::int64_t first = 0; first < local; first += run.micro_batch) {
    Tensor tokens = at::zeros({run.micro_batch, kLength}, at::kLong),
           labels = at::zeros_like(tokens);
    for (std::int64_t i = 0; i < run.micro_batch; ++i) {
      const std::int64_t n = step * run.global_batch + coordinate * local + first + i;
      const RandomKey key = make_random_key(7, n, "tokens");
      for (std::int64_t t = 0; t <= kLength; ++t) {
        const auto token = static_cast<std::int64_t>(uniform(key, t) * static_cast<double>(vocab));
        if (t < kLength) tokens[i][t] = token;
        if (t > 0) labels[i][t - 1] = t - 1 < n % kLength ? token : -100;
      }
    }
    out.push_back(
        {.tokens = tokens,
         .labels = labels,
         .positions = at::arange(kLength).expand({run.micro_batch, kLength}).contiguous()});
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
  c.num_layers = 3;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.ffn_dim = 72;
  c.vocab_size = 61;
  c.tie_embeddings = tied;
  return c;
}

LayoutResult run_rank(const LayoutRun& run, const World& world, comm::Connection& connection) {
  models::LlamaModelConfig config;
  config.config = small_llama(run.tied);
  comm::Groups groups(Mesh(world.size, run.sizes), *connection.device);
  const parallel::ApplyOptions apply{
      .plan = config.plan(),
      .parallel = {.reshard_after_forward = run.reshard, .accumulate = run.accumulate},
      .execution = {.recompute = run.recompute, .recompute_every = run.recompute_every},
      .compute = run.compute};
  parallel::ParallelModel model(std::make_unique<models::Llama>(config.config), apply, groups);
  model.initialise(42);
  optim::AdamW optimizer(model.shards(), {}, model.segments());
  train::TrainStep step(model, optimizer, groups, at::kCPU, 1.0);
  LayoutResult result;
  result.initial_hash = hash_of(collect(
      model.shards(), [](const FlatShard& s) { return s.master; }, *connection.host));
  for (std::int64_t s = 0; s < run.steps; ++s) {
    auto batches = micro_batches(run, s, groups.mesh().coordinate("batch", world.rank),
                                 groups.mesh().degree("batch"), config.config.vocab_size);
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
