#include "parallel/pipeline/pipeline.h"

#include "base/error.h"
#include "core/torch.h"

namespace coeus::parallel {
namespace {

using Kind = Action::Kind;

// Dtype, number of dims, sizes: what a receiver must know of the first tensor of its kind.
constexpr std::int64_t kHeader = 8;
constexpr std::size_t kSendsUnderWay = 4;  // to both neighbours, two each

Tensor header_of(const Tensor& t) {
  COEUS_ASSERT(t.dim() + 2 <= kHeader, "a stage hands on a tensor of {} dims", t.dim());
  std::vector<std::int64_t> values(kHeader, 0);
  values[0] = static_cast<std::int64_t>(t.scalar_type());
  values[1] = t.dim();
  std::copy(t.sizes().begin(), t.sizes().end(), values.begin() + 2);
  return at::tensor(values, at::kLong).to(t.device());
}

int other(const comm::Communicator& pair) {
  return 1 - pair.rank();
}

std::string label(const char* what, std::int64_t stage, std::int64_t micro_batch) {
  return fmt::format("{} of stage {}, micro-batch {}", what, stage, micro_batch);
}

}  // namespace

StageSplit split_for(const Pipeline::Options& options, std::int64_t num_ranks,
                     std::int64_t num_micro_batches, const ModelSpec& model,
                     const ParallelPlan& plan, std::int64_t sequence_length) {
  if (num_ranks == 1) return {};
  StageSplit split;
  split.rank_of_stage =
      make_schedule(options.schedule, num_ranks, options.stages_per_rank, num_micro_batches)
          .rank_of_stage;
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

const std::vector<Action>& Pipeline::training_list(std::int64_t num_micro_batches) {
  if (const auto known = training_lists_.find(num_micro_batches); known != training_lists_.end())
    return known->second;
  const bool whole = num_ranks_ == 1;
  const Schedule schedule = make_schedule(whole ? "1f1b" : options_.schedule, num_ranks_,
                                          whole ? 1 : options_.stages_per_rank, num_micro_batches);
  if (const auto fault = check_schedule(schedule))
    throw ConfigError(fmt::format("parallel.pp_schedule: {}: {}", schedule.name, *fault));
  auto list = with_transfers(schedule).ranks[static_cast<std::size_t>(rank_)];
  return training_lists_[num_micro_batches] = std::move(list);
}

// Forward only, stage by stage.
std::vector<Action> Pipeline::evaluation_list(std::int64_t num_micro_batches) const {
  const auto rank_of = [&](std::int64_t stage) {
    return stages_.rank_of_stage[static_cast<std::size_t>(stage)];
  };
  std::vector<Action> list;
  for (std::int64_t stage = 0; stage < num_stages_; ++stage) {
    if (!is_here(stage)) continue;
    for (std::int64_t m = 0; m < num_micro_batches; ++m) {
      if (!is_first(stage) && !is_here(stage - 1))
        list.push_back({Kind::receive_forward, stage, m, rank_of(stage - 1)});
      list.push_back({Kind::forward, stage, m});
      if (!is_last(stage) && !is_here(stage + 1))
        list.push_back({Kind::send_forward, stage, m, rank_of(stage + 1)});
    }
  }
  return list;
}

void Pipeline::run(const std::vector<Batch>& micro_batches, const OnLoss& on_loss) {
  const auto n = static_cast<std::int64_t>(micro_batches.size());
  model_.begin_step(n);
  run_list(training_list(n), micro_batches, on_loss);
  model_.finish();
}

void Pipeline::evaluate(const std::vector<Batch>& micro_batches, const OnLoss& on_loss) {
  at::NoGradGuard no_grad;
  run_list(evaluation_list(static_cast<std::int64_t>(micro_batches.size())), micro_batches,
           on_loss);
}

void Pipeline::run_list(const std::vector<Action>& actions, const std::vector<Batch>& batches,
                        const OnLoss& on_loss) {
  for (const Action& a : actions) {
    const Key key{a.stage, a.micro_batch};
    const Batch& batch = batches[static_cast<std::size_t>(a.micro_batch)];
    switch (a.kind) {
      case Kind::forward:
        forward(key, batch, on_loss);
        break;
      case Kind::backward:
        backward(key);
        break;
      case Kind::weight:
        form_weight_gradients(key);
        break;
      case Kind::send_forward:
        send_output(key, a.peer, batch);
        break;
      case Kind::receive_forward:
        receive_input(key, a.peer, batch);
        break;
      case Kind::send_backward:
        send_dx(key, a.peer);
        break;
      case Kind::receive_backward:
        receive_gradient(key, a.peer);
        break;
    }
  }
  wait_for_sends(0);
}

void Pipeline::form_weight_gradients(const Key& key) {
  for (auto& form : weights_[key]) form();
  weights_.erase(key);
}

void Pipeline::send_output(const Key& key, std::int64_t peer, const Batch& batch) {
  const auto kept = kept_.find(key);
  COEUS_ASSERT(kept != kept_.end(), "no output of stage {}", key.first);
  const Tensor output = kept->second.output.detach().contiguous();
  if (shapes_.try_emplace({key.first + 1, batch.tokens.sizes().vec()}).second)
    send(header_of(output), peer, "shape of a stage's input");
  send(output, peer, label("output", key.first, key.second));
  if (!at::GradMode::is_enabled()) kept_.erase(kept);
}

void Pipeline::send_dx(const Key& key, std::int64_t peer) {
  const auto kept = kept_.find(key);
  COEUS_ASSERT(kept != kept_.end(), "no dX of stage {}", key.first);
  send(kept->second.input.contiguous(), peer, label("dX", key.first, key.second));
  kept_.erase(kept);
}

void Pipeline::receive_input(const Key& key, std::int64_t peer, const Batch& batch) {
  comm::Communicator& from = pair(peer, rank_);
  auto& sizes = shapes_[{key.first, batch.tokens.sizes().vec()}];
  if (sizes.empty()) {
    const Tensor header = at::empty({kHeader}, batch.tokens.options().dtype(at::kLong));
    from.recv(header, other(from), {.label = "shape of a stage's input"}).wait();
    from.synchronize({.label = "shape of a stage's input"});
    const Tensor host = header.cpu();
    const auto* v = host.data_ptr<std::int64_t>();
    sizes.assign(v, v + 2 + v[1]);
  }
  Arriving& in = inputs_[key];
  in.tensor = at::empty(at::IntArrayRef(sizes).slice(2),
                        batch.tokens.options().dtype(static_cast<at::ScalarType>(sizes[0])));
  in.pending = from.recv(in.tensor, other(from), {.label = label("input", key.first, key.second)});
}

void Pipeline::receive_gradient(const Key& key, std::int64_t peer) {
  comm::Communicator& from = pair(peer, rank_);
  Arriving& in = gradients_[key];
  const Tensor& output = kept_.at(key).output;
  in.tensor = at::empty(output.sizes(), output.options().requires_grad(std::nullopt));
  in.pending =
      from.recv(in.tensor, other(from), {.label = label("gradient", key.first, key.second)});
}

void Pipeline::send(const Tensor& tensor, std::int64_t peer, const std::string& name) {
  comm::Communicator& to = pair(rank_, peer);
  pending_sends_.emplace_back(to.send(tensor, other(to), {.label = name}), tensor);
  wait_for_sends(kSendsUnderWay);
}

// The schedule was proved with sends that wait for their receives, so waiting for the oldest cannot
// block for good; it keeps the memory of sends under way bounded.
void Pipeline::wait_for_sends(std::size_t may_be_under_way) {
  while (pending_sends_.size() > may_be_under_way) {
    pending_sends_.front().first.wait();
    pending_sends_.pop_front();
  }
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
  const bool is_needed = at::GradMode::is_enabled() || (!is_last(stage) && !is_here(stage + 1));
  if (is_needed) kept_[key] = std::move(kept);
}

void Pipeline::backward(const Key& key) {
  const auto [stage, micro_batch] = key;
  const auto kept = kept_.find(key);
  COEUS_ASSERT(kept != kept_.end(), "backward before forward of stage {}", stage);
  const Tensor output = std::move(kept->second.output);
  if (is_last(stage)) {
    torch::autograd::backward({output}, {});
  } else {
    torch::autograd::backward({output}, {arrived(gradients_, key)});
  }
  weights_[key] = model_.take_deferred();
  if (is_first(stage)) {
    kept_.erase(kept);
    return;
  }
  Tensor dx = std::move(kept->second.input.mutable_grad());
  if (is_here(stage - 1)) {
    gradients_[{stage - 1, micro_batch}].tensor = std::move(dx);
    kept_.erase(kept);
  } else {
    kept->second.input = std::move(dx);  // until it is sent
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
