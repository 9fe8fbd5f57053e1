#include "job/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "base/error.h"
#include "layout/place.h"
#include "layout/plan.h"
#include "layout/schedule/schedule.h"
#include "layout/stages.h"

namespace coeus::job {
namespace {

using Message = std::optional<std::string>;
constexpr std::int64_t kByteVocabulary = 257;

struct Rule {
  std::vector<std::string> keys;  // the first is where the fault is reported
  Message (*check)(const JobConfig& c);
};

Message one_length(const JobConfig& c) {
  const TrainingConfig& t = c.training;
  const int given = t.steps.has_value() + t.tokens.has_value() + t.epochs.has_value();
  if (given == 1) return std::nullopt;
  return given == 0 ? "give one of steps, tokens, epochs"
                    : "give only one of steps, tokens, epochs";
}

Message tokens_fit(const JobConfig& c) {
  const auto a = static_cast<unsigned __int128>(c.training.steps.value_or(1));
  const auto tokens = a * static_cast<unsigned __int128>(c.training.global_batch_size) *
                      static_cast<unsigned __int128>(c.data.sequence_length);
  if (c.training.global_batch_size <= std::int64_t{1} << 40 && c.data.sequence_length <= 1 << 30 &&
      tokens <= static_cast<unsigned __int128>(std::numeric_limits<std::int64_t>::max())) {
    return std::nullopt;
  }
  return "steps · global_batch_size · sequence_length leaves 64 bits";
}

Message shard_degree(const JobConfig& c) {
  if (c.parallel.dp_shard != 0) return std::nullopt;
  return "must be at least 1, or -1 for all ranks that are left; is 0";
}

Message batch_divides(const JobConfig& c) {
  const std::int64_t shard = std::max<std::int64_t>(1, c.parallel.dp_shard);
  const auto portion =
      static_cast<__int128>(c.parallel.dp_replicate) * shard * c.training.micro_batch_size;
  if (c.training.global_batch_size % portion == 0) return std::nullopt;
  return fmt::format("{} is not a multiple of dp_replicate {} · dp_shard {} · micro_batch_size {}",
                     c.training.global_batch_size, c.parallel.dp_replicate, shard,
                     c.training.micro_batch_size);
}

Message vocabulary_holds_bytes(const JobConfig& c) {
  if (c.tokenizer.path != "byte" || !c.model) return std::nullopt;
  const std::int64_t size = c.model->vocab_size();
  if (size == 0 || size >= kByteVocabulary) return std::nullopt;
  return fmt::format("{} is smaller than the byte tokenizer's {}", size, kByteVocabulary);
}

Message byte_has_no_bos(const JobConfig& c) {
  if (c.tokenizer.path != "byte" || c.data.bos != BosPolicy::on) return std::nullopt;
  return "'on', but the byte tokenizer has no begin token";
}

Message holdout_or_sources(const JobConfig& c) {
  if (c.evaluation.sources.empty() || c.evaluation.holdout == 0) return std::nullopt;
  return "give either sources or holdout, not both";
}

Message optimizer_state_has_a_source(const JobConfig& c) {
  if (!c.checkpoint.initialize_optimizer || c.checkpoint.initialize_from) return std::nullopt;
  return "has no meaning without initialize_from";
}

Message threads_backend(const JobConfig& c) {
  const CommBackend b = c.comm.backend;
  if (c.comm.ranks == RankKind::processes) return std::nullopt;
  if (b == CommBackend::automatic || b == CommBackend::fake) return std::nullopt;
  return "ranks: threads talk through memory: backend must be auto or fake";
}

Message resume_is_not_directory(const JobConfig& c) {
  if (c.run.resume == "never" || c.run.resume == "auto") return std::nullopt;
  if (c.run.resume.find('/') != std::string::npos) return std::nullopt;
  return fmt::format("must be auto, never or the path of a step folder, is '{}'", c.run.resume);
}

Message world_divides_by_ep(const JobConfig& c) {
  const auto& p = c.parallel;
  if (p.dp_shard < 1 || (p.dp_shard * p.cp * p.tp) % p.ep == 0) return std::nullopt;
  return fmt::format("{} does not divide dp_shard {} · cp {} · tp {}", p.ep, p.dp_shard, p.cp,
                     p.tp);
}

Message sequence_divides_by_cp(const JobConfig& c) {
  const auto& p = c.parallel;
  if (p.cp == 1 || c.data.sequence_length % (2 * p.cp) == 0) return std::nullopt;
  return fmt::format("{} is not a multiple of 2 · cp {}", c.data.sequence_length, p.cp);
}

Message sequence_divides_by_tp(const JobConfig& c) {
  const auto& p = c.parallel;
  if (p.tp == 1 || !p.sequence_parallel || c.data.sequence_length % (p.cp * p.tp) == 0)
    return std::nullopt;
  return fmt::format("{} is not a multiple of cp {} · tp {}, which sequence_parallel needs",
                     c.data.sequence_length, p.cp, p.tp);
}

// nullopt: neither dp_shard nor the world (0: not known yet) say, or the sizes do not fit.
std::optional<std::int64_t> num_micro_batches(const JobConfig& c, std::int64_t world_size = 0) {
  const auto& p = c.parallel;
  const std::int64_t rest = world_size / (p.pp * p.dp_replicate * p.cp * p.tp);
  const std::int64_t dp_shard = p.dp_shard == -1 ? rest : p.dp_shard;
  const std::int64_t portion = p.dp_replicate * dp_shard * c.training.micro_batch_size;
  if (dp_shard < 1 || c.training.global_batch_size % portion != 0) return std::nullopt;
  return c.training.global_batch_size / portion;
}

Message schedule_exists(const JobConfig& c) {
  const auto& p = c.parallel;
  if (p.pp == 1) return std::nullopt;
  const auto built_in = schedule_names();
  const bool is_file = std::find(built_in.begin(), built_in.end(), p.pp_schedule) == built_in.end();
  const auto micro_batches = num_micro_batches(c);
  // A file is made for one number of micro-batches, which follows from dp_shard.
  if (is_file && !micro_batches && p.pp_schedule.find('.') != std::string::npos)
    return std::nullopt;
  try {
    const Schedule schedule =
        make_schedule(p.pp_schedule, p.pp, p.pp_stages_per_rank, micro_batches.value_or(2 * p.pp));
    if (p.accumulate == Accumulate::sharded && delays_weights(schedule))
      return fmt::format(
          "{} delays weight gradients, which parallel.accumulate: sharded cannot wait for",
          p.pp_schedule);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return std::nullopt;
}

Message stages_need_pp(const JobConfig& c) {
  if (c.parallel.pp > 1 || c.parallel.pp_stages_per_rank == 1) return std::nullopt;
  return fmt::format("{} has no meaning with pp 1", c.parallel.pp_stages_per_rank);
}

// A vocabulary that the tokenizer will decide is taken as large enough for any layout.
ModelSpec spec_of(const JobConfig& c) {
  if (c.model->vocab_size() > 0) return c.model->spec();
  const auto model = c.model->clone();
  model->set_vocab_size(std::int64_t{1} << 20);
  return model->spec();
}

Message model_has_the_stages(const JobConfig& c) {
  const auto& p = c.parallel;
  if (p.pp == 1 || !c.model) return std::nullopt;
  try {
    split_stages(spec_of(c), c.model->plan(), p.pp * p.pp_stages_per_rank, c.data.sequence_length);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return std::nullopt;
}

// Sizes of the model that tp or ep do not fit: the first parameter concerned stands for its like.
Message first_of(const std::vector<std::string>& faults) {
  if (faults.empty()) return std::nullopt;
  return faults.front();
}
Message tp_divides(const JobConfig& c) {
  if (!c.model || c.parallel.tp == 1) return std::nullopt;
  return first_of(check_place(spec_of(c), c.model->plan(), {.tp_degree = c.parallel.tp}));
}
Message ep_divides(const JobConfig& c) {
  if (!c.model || c.parallel.ep == 1) return std::nullopt;
  return first_of(check_place(spec_of(c), c.model->plan(), {.ep_degree = c.parallel.ep}));
}

bool has_experts(const JobConfig& c) {
  for (const auto& unit : plan_units(c.model->spec(), c.model->plan())) {
    if (unit.experts) return true;
  }
  return false;
}

Message ep_needs_experts(const JobConfig& c) {
  if (c.parallel.ep == 1 || !c.model || has_experts(c) || world_divides_by_ep(c))
    return std::nullopt;
  return fmt::format("{}, but model {} has no experts", c.parallel.ep, c.model->name());
}

Message experts_need_sequence_parallel(const JobConfig& c) {
  if (c.parallel.tp == 1 || c.parallel.sequence_parallel || !c.model || !has_experts(c))
    return std::nullopt;
  return "false, but experts under tp need it: else each tp rank would send the same tokens";
}

Message ulysses_has_heads(const JobConfig& c) {
  const auto& p = c.parallel;
  if (p.cp == 1 || p.cp_style != CpStyle::ulysses || !c.model) return std::nullopt;
  const std::int64_t heads = c.model->spec().num_heads;
  if (heads % (p.tp * p.cp) == 0) return std::nullopt;
  return fmt::format("ulysses: {} heads are not a multiple of tp {} · cp {}", heads, p.tp, p.cp);
}

const Rule kRules[] = {
    {{"training.steps", "training.tokens", "training.epochs"}, one_length},
    {{"training.steps", "training.global_batch_size", "data.sequence_length"}, tokens_fit},
    {{"parallel.dp_shard"}, shard_degree},
    {{"training.global_batch_size", "training.micro_batch_size", "parallel.dp_shard",
      "parallel.dp_replicate"},
     batch_divides},
    {{"parallel.ep", "parallel.dp_shard", "parallel.cp", "parallel.tp"}, world_divides_by_ep},
    {{"parallel.ep", "model"}, ep_needs_experts},
    {{"parallel.sequence_parallel", "parallel.tp", "model"}, experts_need_sequence_parallel},
    {{"parallel.tp", "model"}, tp_divides},
    {{"parallel.ep", "model"}, ep_divides},
    {{"data.sequence_length", "parallel.cp"}, sequence_divides_by_cp},
    {{"data.sequence_length", "parallel.tp", "parallel.cp"}, sequence_divides_by_tp},
    {{"parallel.pp_schedule", "parallel.pp", "parallel.pp_stages_per_rank"}, schedule_exists},
    {{"parallel.pp_stages_per_rank", "parallel.pp"}, stages_need_pp},
    {{"parallel.pp", "parallel.pp_stages_per_rank", "model"}, model_has_the_stages},
    {{"parallel.cp_style", "parallel.cp", "parallel.tp", "model"}, ulysses_has_heads},
    {{"model.vocab_size", "model.name", "model.preset", "tokenizer.path"}, vocabulary_holds_bytes},
    {{"data.bos", "tokenizer.path"}, byte_has_no_bos},
    {{"evaluation.holdout", "evaluation.sources"}, holdout_or_sources},
    {{"checkpoint.initialize_optimizer", "checkpoint.initialize_from"},
     optimizer_state_has_a_source},
    {{"comm.backend", "comm.ranks"}, threads_backend},
    {{"run.resume"}, resume_is_not_directory},
};

// Patterns see every segment; a group that never is the first to match is a mistake.
void check_groups(const JobConfig& c, std::vector<RuleFault>& faults) {
  if (c.optimizer.groups.empty()) return;
  std::vector<std::string> fqns;
  for (const LayerSpec& layer : c.model->spec().layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      for (const Segment& segment : parameter.segments) fqns.push_back(segment.fqn);
    }
  }
  std::vector<bool> taken(fqns.size());
  for (std::size_t g = 0; g < c.optimizer.groups.size(); ++g) {
    const OptimizerGroup& group = c.optimizer.groups[g];
    const std::string key = fmt::format("optimizer.groups.{}", g);
    bool used = false, matched = false;
    for (std::size_t i = 0; i < fqns.size(); ++i) {
      if (!matches(group.match, fqns[i])) continue;
      matched = true;
      used = used || !taken[i];
      taken[i] = true;
    }
    if (!matched) {
      const auto near = near_misses(group.match, fqns);
      faults.push_back(
          {key + ".match", fmt::format("'{}' matches no tensor{}{}", group.match,
                                       near.empty() ? "" : "; near: ", fmt::join(near, ", "))});
    } else if (!used) {
      faults.push_back(
          {key + ".match",
           fmt::format("all that '{}' matches belongs to earlier groups", group.match)});
    }
    if (!group.weight_decay && !group.lr_scale) {
      faults.push_back({key, "sets neither weight_decay nor lr_scale"});
    }
  }
}

}  // namespace

std::vector<std::string> rule_warnings(const JobConfig& config, std::int64_t world_size) {
  const auto& p = config.parallel;
  const std::int64_t stages = p.pp * p.pp_stages_per_rank;
  const auto micro_batches = num_micro_batches(config, world_size);
  if (p.pp == 1 || !micro_batches || *micro_batches >= stages) return {};
  return {
      fmt::format("parallel.pp: {} micro-batches a step for {} stages: some are idle most of it",
                  *micro_batches, stages)};
}

std::vector<RuleFault> check_rules(const JobConfig& config,
                                   const std::function<bool(const std::string&)>& skip) {
  std::vector<RuleFault> faults;
  for (const Rule& rule : kRules) {
    if (std::any_of(rule.keys.begin(), rule.keys.end(), skip)) continue;
    if (auto message = rule.check(config)) faults.push_back({rule.keys[0], *message});
  }
  if (config.model && !skip("model") && !skip("optimizer.groups")) check_groups(config, faults);
  return faults;
}

}  // namespace coeus::job
