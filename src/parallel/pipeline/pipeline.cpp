#include "parallel/pipeline/pipeline.h"

#include "base/error.h"
#include "core/torch.h"

namespace coeus::parallel {
namespace {

using Kind = Action::Kind;

// Dtype, number of dims, sizes: what a receiver must know of the first tensor of its kind.
constexpr std::int64_t kHeader = 8;

Tensor header_of(const Tensor& t) {
  COEUS_ASSERT(t.dim() + 2 <= kHeader, "a stage hands on a tensor of {} dims", t.dim());
  std::vector<std::int64_t> values(kHeader, 0);
  values[0] = static_cast<std::int64_t>(t.scalar_type());
  values[1] = t.dim();
  std::copy(t.sizes().begin(), t.sizes().end(), values.begin() + 2);
  return at::tensor(values, at::kLong).to(t.device());
}

std::string label(const char* what, std::int64_t stage, std::int64_t micro_batch) {
  return fmt::format("{} of stage {}, micro-batch {}", what, stage, micro_batch);
}

}  // namespace

StageSplit split_for(const std::string& schedule, std::int64_t num_ranks,
                     std::int64_t stages_per_rank, const ModelSpec& model, const ParallelPlan& plan,
                     std::int64_t sequence_length) {
  if (num_ranks == 1) return {};
  StageSplit split{{},
                   make_schedule(schedule, num_ranks, stages_per_rank, num_ranks).rank_of_stage};
  split.ranges = split_stages(model, plan, static_cast<std::int64_t>(split.rank_of_stage.size()),
                              sequence_length);
  return split;
}

Pipeline::Pipeline(ParallelModel& model, const Options& options, comm::Groups& groups)
    : model_(model),
      options_(options),
      stages_(model.stages()),
      rank_(groups.coordinate("pp")),
      num_ranks_(groups.mesh().degree("pp")),
      num_stages_(static_cast<std::int64_t>(stages_.ranges.size())) {
  open_pairs(groups);
}

// One communicator for each direction between ranks of neighbouring stages, so that no transfer
// waits behind one to or from another rank.
void Pipeline::open_pairs(comm::Groups& groups) {
  for (std::int64_t stage = 0; stage + 1 < num_stages_; ++stage) {
    const auto a = stages_.rank_of_stage[static_cast<std::size_t>(stage)],
               b = stages_.rank_of_stage[static_cast<std::size_t>(stage + 1)];
    if (a == b) continue;
    for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      auto* pair = groups.open_subset("pp", {from, to}, fmt::format("{} to {}", from, to));
      if (pair != nullptr) pairs_[{from, to}] = pair;
    }
  }
}

const std::vector<Action>& Pipeline::actions(std::int64_t num_micro_batches, bool backward) {
  const auto [place, is_new] = lists_.try_emplace({num_micro_batches, backward});
  if (!is_new) return place->second;
  const auto rank = static_cast<std::size_t>(rank_);
  if (backward) {
    const Schedule schedule =
        make_schedule(num_ranks_ == 1 ? "1f1b" : options_.schedule, num_ranks_,
                      num_ranks_ == 1 ? 1 : options_.stages_per_rank, num_micro_batches);
    if (const auto fault = check_schedule(schedule))
      throw ConfigError(fmt::format("parallel.pp_schedule: {}: {}", schedule.name, *fault));
    place->second = with_transfers(schedule).ranks[rank];
    return place->second;
  }
  for (std::int64_t stage = 0; stage < num_stages_; ++stage) {
    if (!is_here(stage)) continue;
    for (std::int64_t m = 0; m < num_micro_batches; ++m) {
      if (!is_first(stage) && !is_here(stage - 1))
        place->second.push_back({Kind::receive_forward, stage, m,
                                 stages_.rank_of_stage[static_cast<std::size_t>(stage - 1)]});
      place->second.push_back({Kind::forward, stage, m});
      if (!is_last(stage) && !is_here(stage + 1))
        place->second.push_back({Kind::send_forward, stage, m,
                                 stages_.rank_of_stage[static_cast<std::size_t>(stage + 1)]});
    }
  }
  return place->second;
}

void Pipeline::run(const std::vector<Batch>& micro_batches, const OnLoss& on_loss) {
  const auto n = static_cast<std::int64_t>(micro_batches.size());
  model_.begin_step(n);
  run_list(actions(n, true), micro_batches, on_loss);
  model_.finish();
}

void Pipeline::evaluate(const std::vector<Batch>& micro_batches, const OnLoss& on_loss) {
  at::NoGradGuard no_grad;
  run_list(actions(static_cast<std::int64_t>(micro_batches.size()), false), micro_batches, on_loss);
}

void Pipeline::run_list(const std::vector<Action>& actions, const std::vector<Batch>& batches,
                        const OnLoss& on_loss) {
  const bool training = at::GradMode::is_enabled();
  for (const Action& a : actions) {
    const Key key{a.stage, a.micro_batch};
    const Batch& batch = batches[static_cast<std::size_t>(a.micro_batch)];
    switch (a.kind) {
      case Kind::forward:
        forward(key, batch, on_loss);
        if (!training && (is_last(a.stage) || is_here(a.stage + 1))) kept_.erase(key);
        break;
      case Kind::backward:
        backward(key);
        break;
      case Kind::weight:
        for (auto& form : weights_[key]) form();
        weights_.erase(key);
        break;
      case Kind::send_forward: {
        const std::pair shape_key{a.stage + 1, batch.tokens.sizes().vec()};
        const bool is_new = shapes_.try_emplace(shape_key).second;
        send(kept_.at(key).output.detach().contiguous(), a.peer, key, is_new);
        if (!training) kept_.erase(key);
        break;
      }
      case Kind::send_backward: {
        const auto at = kept_.find(key);
        COEUS_ASSERT(at != kept_.end(), "no dX of stage {}", a.stage);
        send(at->second.input.contiguous(), a.peer, key, false);
        kept_.erase(at);
        break;
      }
      case Kind::receive_forward: {
        comm::Communicator& from = pair(a.peer, rank_);
        auto& sizes = shapes_[{a.stage, batch.tokens.sizes().vec()}];
        if (sizes.empty()) {
          const Tensor header = at::empty({kHeader}, batch.tokens.options().dtype(at::kLong));
          from.recv(header, from.rank() == 0 ? 1 : 0, {.label = "shape of a stage's input"}).wait();
          const Tensor host = header.cpu();
          const auto* v = host.data_ptr<std::int64_t>();
          sizes.assign(v, v + 2 + v[1]);
        }
        Arriving& in = inputs_[key];
        in.tensor = at::empty(at::IntArrayRef(sizes).slice(2),
                              batch.tokens.options().dtype(static_cast<at::ScalarType>(sizes[0])));
        in.pending = from.recv(in.tensor, from.rank() == 0 ? 1 : 0,
                               {.label = label("input", a.stage, a.micro_batch)});
        break;
      }
      case Kind::receive_backward: {
        comm::Communicator& from = pair(a.peer, rank_);
        Arriving& in = gradients_[key];
        in.tensor = at::empty(kept_.at(key).output.sizes(),
                              kept_.at(key).output.options().requires_grad(std::nullopt));
        in.pending = from.recv(in.tensor, from.rank() == 0 ? 1 : 0,
                               {.label = label("gradient", a.stage, a.micro_batch)});
        break;
      }
    }
  }
  for (auto& [work, tensor] : pending_sends_) work.wait();
  pending_sends_.clear();
}

void Pipeline::send(const Tensor& tensor, std::int64_t peer, const Key& key, bool with_shape) {
  comm::Communicator& to = pair(rank_, peer);
  const int other = to.rank() == 0 ? 1 : 0;
  if (with_shape) {
    const Tensor header = header_of(tensor);
    pending_sends_.emplace_back(to.send(header, other, {.label = "shape of a stage's input"}),
                                header);
  }
  const std::string name = label("result", key.first, key.second);
  pending_sends_.emplace_back(to.send(tensor, other, {.label = name}), tensor);
}

Tensor Pipeline::arrived(std::map<Key, Arriving>& from, const Key& key) {
  const auto at = from.find(key);
  COEUS_ASSERT(at != from.end(), "nothing arrived for stage {}, micro-batch {}", key.first,
               key.second);
  at->second.pending.wait();
  Tensor tensor = std::move(at->second.tensor);
  from.erase(at);
  return tensor;
}

void Pipeline::forward(const Key& key, const Batch& batch, const OnLoss& on_loss) {
  const auto [stage, micro_batch] = key;
  Stage kept;
  kept.input = is_first(stage) ? batch.tokens : arrived(inputs_, key);
  if (!is_first(stage) && at::GradMode::is_enabled()) kept.input.requires_grad_();
  nn::Model& model = model_.model();
  const StageRange& range = stages_.ranges[static_cast<std::size_t>(stage)];
  kept.output = num_stages_ == 1 ? model.forward(kept.input, batch)
                                 : model.run(range.begin, range.end, kept.input, batch);
  if (is_last(stage)) {
    const LossSum loss = model.loss(kept.output, batch);
    on_loss(loss);
    kept.output =
        loss.gradient == LossSum::Gradient::formed ? loss.sum : loss.sum * batch.loss_scale;
  } else if (is_here(stage + 1)) {
    inputs_[{stage + 1, micro_batch}].tensor = kept.output.detach();
  }
  kept_[key] = std::move(kept);
}

void Pipeline::backward(const Key& key) {
  const auto [stage, micro_batch] = key;
  const auto at = kept_.find(key);
  COEUS_ASSERT(at != kept_.end(), "backward before forward of stage {}", stage);
  const Tensor output = std::move(at->second.output);
  if (is_last(stage)) {
    torch::autograd::backward({output}, {});
  } else {
    torch::autograd::backward({output}, {arrived(gradients_, key)});
  }
  weights_[key] = model_.take_deferred();
  if (is_first(stage)) {
    kept_.erase(at);
    return;
  }
  Tensor dx = std::move(at->second.input.mutable_grad());
  if (is_here(stage - 1)) {
    gradients_[{stage - 1, micro_batch}].tensor = std::move(dx);
    kept_.erase(at);
  } else {
    at->second.input = std::move(dx);  // until it is sent
  }
}

void Pipeline::reset() {
  inputs_.clear();
  gradients_.clear();
  kept_.clear();
  weights_.clear();
  shapes_.clear();
  pending_sends_.clear();
}

}  // namespace coeus::parallel
