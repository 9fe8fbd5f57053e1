#include "tests/train/layouts.h"

#include <cmath>
#include <mutex>

#include "base/error.h"
#include "base/files.h"
#include "base/random.h"
#include "models/deepseek_v3/kind.h"
#include "models/llama/kind.h"
#include "models/mixtral/kind.h"
#include "models/qwen3_moe/kind.h"
#include "parallel/context/context.h"
#include "train/registry.h"

namespace coeus::testing {
namespace {

constexpr std::int64_t kLength = 16;

// Found by trying: the first with which every choice of experts has a margin of 1e-4.
std::int64_t data_seed(const std::string& model) {
  if (model == "mixtral") return 11;
  if (model == "qwen3_moe" || model == "deepseek_v3") return 3;
  return 7;
}

// Routers as the models initialise them choose by tiny differences; these are sure.
void sharpen_routers(parallel::ParallelModel& model) {
  at::NoGradGuard no_grad;
  for (const auto& shard : model.shards()) {
    for (const auto& run : shard.runs) {
      const std::string& fqn = shard.section->segments[run.segment].segment.fqn;
      if (fqn.ends_with("router.weight"))
        shard.master.narrow(0, run.shard_offset, run.count).mul_(20);
    }
  }
  model.publish();
}

struct WatchMargin : nn::Attachment {
  WatchMargin(double* least, std::int64_t top_k) : least(least), top_k(top_k) {}
  nn::Tensors run(const Tensor& x, const nn::Next& next) override {
    nn::Tensors routing = next(x);
    at::NoGradGuard no_grad;
    const Tensor sorted = std::get<0>(routing[0].sort(-1, true));
    const Tensor gap = sorted.select(-1, top_k - 1) - sorted.select(-1, top_k);
    *least = std::min(*least, gap.min().item<double>());
    return routing;
  }
  double* least;
  std::int64_t top_k;
};

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
      const RandomKey key =
          make_random_key(run.data_seed != 0 ? run.data_seed : data_seed(run.model), n, "tokens");
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
  return {"llama", "llama_tied", "mixtral", "qwen3_moe", "deepseek_v3"};
}

bool has_experts(const std::string& model) {
  return !model.starts_with("llama");
}

namespace {

template <class Config>
void set_decoder(Config& c, std::int64_t layers) {
  c.dim = 32;
  c.num_layers = layers;
  c.num_heads = kSmallHeads;
  c.vocab_size = 61;
}

template <class Config>
void set_experts(Config& c) {
  c.num_experts = 8;
  c.top_k = kSmallTopK;
  c.expert_ffn_dim = 24;
  c.aux_loss_alpha = 0.01;
}

}  // namespace

std::unique_ptr<ModelConfig> small_model(const LayoutRun& run) {
  auto config = make_model_config(run.model == "llama_tied" ? "llama" : run.model);
  if (auto* llama = dynamic_cast<models::LlamaModelConfig*>(config.get())) {
    llama->config = small_llama(run.model == "llama_tied");
    llama->config.num_layers = run.layers;
  } else if (auto* mixtral = dynamic_cast<models::MixtralModelConfig*>(config.get())) {
    set_decoder(mixtral->config, run.layers);
    set_experts(mixtral->config);
    mixtral->config.num_kv_heads = 2;
  } else if (auto* qwen = dynamic_cast<models::Qwen3MoeModelConfig*>(config.get())) {
    set_decoder(qwen->config, run.layers);
    set_experts(qwen->config);
    qwen->config.num_kv_heads = 2;
    qwen->config.head_dim = 12;
  } else if (auto* deepseek = dynamic_cast<models::DeepseekV3ModelConfig*>(config.get())) {
    auto& c = deepseek->config;
    set_decoder(c, run.layers);
    set_experts(c);
    c.q_lora_rank = 20;
    c.kv_lora_rank = 12;
    c.qk_nope_head_dim = 8;
    c.qk_rope_head_dim = 4;
    c.v_head_dim = 6;
    c.num_dense_layers = 1;
    c.ffn_dim = 72;
    c.bias_update_speed = 0.01;
  }
  return config;
}

LayoutResult run_rank(const LayoutRun& run, const World& world, comm::Connection& connection) {
  const auto config = small_model(run);
  comm::Groups groups(Mesh(world.size, run.sizes), *connection.device);
  const parallel::Pipeline::Options schedule{.schedule = run.schedule,
                                             .stages_per_rank = run.stages_per_rank};
  const parallel::ApplyOptions apply{
      .plan = config->plan(),
      .parallel = {.sequence_parallel = run.sequence_parallel,
                   .reshard_after_forward = run.reshard,
                   .accumulate = run.accumulate,
                   .cp_style = run.cp_style},
      .execution = {.recompute = run.recompute, .recompute_every = run.recompute_every},
      .stages =
          parallel::split_for(schedule, groups.mesh().degree("pp"),
                              run.global_batch / (groups.mesh().degree("batch") * run.micro_batch),
                              config->spec(), config->plan(), kLength),
      .compute = run.compute};
  parallel::ParallelModel model(builtin_registry().build_model(*config), apply, groups);
  model.initialise(42);
  sharpen_routers(model);
  optim::AdamW optimizer(model.shards(), {}, model.segments());
  parallel::Pipeline pipeline(model, schedule, groups);
  train::TrainStep step(model, pipeline, optimizer, groups, at::kCPU, 1.0);
  LayoutResult result;
  double margin = result.routing_margin;
  if (run.ranks == 1) {
    for (const auto& link : model.model().chain()) {
      link.layer->visit(link.name, [&](const std::string&, nn::LayerBase& layer) {
        if (dynamic_cast<nn::Router*>(&layer) != nullptr)
          layer.attach(std::make_unique<WatchMargin>(&margin, kSmallTopK));
      });
    }
  }
  result.initial_hash = hash_of(collect(
      model.shards(), [](const FlatShard& s) { return s.master; }, *connection.host));
  for (std::int64_t s = 0; s < run.steps; ++s) {
    auto batches = micro_batches(run, s, groups, config->vocab_size());
    run.before_step(s, world.rank, batches);
    const train::StepResult r = step.run(batches, run.lr);
    result.losses.push_back(r.loss);
    result.grad_norms.push_back(r.grad_norm);
    if (s > 0) continue;
    result.gradients = collect(
        model.shards(), [](const FlatShard& f) { return f.grad; }, *connection.host);
    result.routing_margin = margin;
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
