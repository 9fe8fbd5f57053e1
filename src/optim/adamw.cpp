#include "optim/adamw.h"

#include <algorithm>

#include "base/error.h"
#include "core/cuda.h"
#include "core/torch.h"
#include "kernels/adamw.h"
#include "optim/groups.h"

namespace coeus::optim {
namespace {

struct Ranges {
  std::vector<std::int64_t> ends;
  std::vector<float> weight_decay, lr_scale;

  void extend(std::int64_t end, float decay, float scale) {
    if (!ends.empty() && weight_decay.back() == decay && lr_scale.back() == scale) {
      ends.back() = end;
      return;
    }
    ends.push_back(end);
    weight_decay.push_back(decay);
    lr_scale.push_back(scale);
  }
};

Ranges ranges_of(const FlatShard& shard, const std::map<std::string, SegmentHyper>& groups) {
  constexpr float kPadding = -1;
  Ranges ranges;
  std::vector<SegmentRun> runs = shard.runs;
  std::sort(runs.begin(), runs.end(),
            [](const auto& a, const auto& b) { return a.shard_offset < b.shard_offset; });
  std::int64_t at = 0;
  for (const auto& run : runs) {
    COEUS_ASSERT(run.shard_offset >= at, "runs of {} overlap", shard.unit);
    if (run.shard_offset > at) ranges.extend(run.shard_offset, 0, kPadding);
    const std::string& fqn = shard.section->segments[run.segment].segment.fqn;
    const auto hyper = groups.find(fqn);
    COEUS_ASSERT(hyper != groups.end(), "{} is not among the model's segments", fqn);
    at = run.shard_offset + run.count;
    ranges.extend(at, static_cast<float>(hyper->second.weight_decay),
                  static_cast<float>(hyper->second.lr_scale));
  }
  if (at < shard.master.numel()) ranges.extend(shard.master.numel(), 0, kPadding);
  return ranges;
}

template <class T>
Tensor on_device_of(const Tensor& like, const std::vector<T>& values) {
  const Tensor host = at::tensor(at::ArrayRef<T>(values));
  return host.to(like.device());
}

void check_shard(const FlatShard& shard) {
  const auto is_flat = [&](const Tensor& t, at::ScalarType type) {
    return t.scalar_type() == type && t.is_contiguous() && t.numel() == shard.master.numel() &&
           reinterpret_cast<std::uintptr_t>(t.data_ptr()) % 16 == 0;
  };
  COEUS_ASSERT(is_flat(shard.master, at::kFloat), "master of {}", shard.unit);
  COEUS_ASSERT(is_flat(shard.grad, at::kFloat), "grad of {}", shard.unit);
  if (shard.compute.data_ptr() == shard.master.data_ptr()) return;
  COEUS_ASSERT(is_flat(shard.compute, at::kBFloat16), "compute of {}", shard.unit);
}

}  // namespace

AdamW::AdamW(std::vector<FlatShard> shards, const OptimizerConfig& config,
             const std::vector<Segment>& all_segments)
    : shards_(std::move(shards)), config_(config) {
  const auto groups = assign_groups(config, all_segments);
  for (const auto& shard : shards_) {
    const Ranges ranges = ranges_of(shard, groups);
    hypers_.push_back({.ends = on_device_of(shard.master, ranges.ends),
                       .weight_decay = on_device_of(shard.master, ranges.weight_decay),
                       .lr_scale = on_device_of(shard.master, ranges.lr_scale)});
    exp_avg_.push_back(at::zeros_like(shard.master));
    exp_avg_sq_.push_back(at::zeros_like(shard.master));
  }
}

void AdamW::step(const StepScalars& scalars) {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const FlatShard& shard = shards_[i];
    if (shard.master.numel() == 0) continue;
    check_shard(shard);
    const bool separate = shard.compute.data_ptr() != shard.master.data_ptr();
    const kernels::AdamWShard arguments{
        .master = shard.master.data_ptr<float>(),
        .grad = shard.grad.const_data_ptr<float>(),
        .exp_avg = exp_avg_[i].data_ptr<float>(),
        .exp_avg_sq = exp_avg_sq_[i].data_ptr<float>(),
        .bf16 = separate ? static_cast<std::uint16_t*>(shard.compute.data_ptr()) : nullptr,
        .size = shard.master.numel(),
        .ranges = {.ends = hypers_[i].ends.const_data_ptr<std::int64_t>(),
                   .weight_decay = hypers_[i].weight_decay.const_data_ptr<float>(),
                   .lr_scale = hypers_[i].lr_scale.const_data_ptr<float>(),
                   .size = hypers_[i].ends.numel()},
        .lr = scalars.lr.const_data_ptr<float>(),
        .clip = scalars.clip.const_data_ptr<float>(),
        .count = scalars.count.const_data_ptr<float>(),
        .apply = scalars.apply.const_data_ptr<float>(),
        .beta1 = config_.betas[0],
        .beta2 = config_.betas[1],
        .eps = config_.eps};
    if (shard.master.is_cuda()) {
      kernels::adamw_cuda(arguments, core::native_stream(shard.master));
    } else {
      kernels::adamw_cpu(arguments, 0, arguments.size);
    }
  }
}

std::vector<std::pair<std::string, std::vector<Tensor>>> AdamW::state() {
  return {{"exp_avg", exp_avg_}, {"exp_avg_sq", exp_avg_sq_}};
}

}  // namespace coeus::optim
