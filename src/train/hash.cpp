#include <coeus/nn/model.h>

#include "core/torch.h"
#include "train/session.h"

namespace coeus::train {

// Each segment's hash is a sum over its elements of a mix of (bits, index), so that ranks can add
// up their parts in any order.
std::string Session::state_hash(Hashed what) {
  std::vector<std::pair<std::string, std::vector<Tensor>>> sets = {{"", {}}};
  for (const auto& shard : optimizer_->shards()) sets[0].second.push_back(shard.master);
  if (what == Hashed::weights_and_moments) {
    for (auto& set : optimizer_->state()) sets.push_back(set);
  }
  std::uint64_t sum = 0;
  const bool counts = groups_->open("dp_replicate").rank() == 0;
  for (const auto& [name, tensors] : sets) {
    for (std::size_t s = 0; counts && s < tensors.size(); ++s) {
      const FlatShard& shard = optimizer_->shards()[s];
      const Tensor host = tensors[s].cpu();
      const auto* bits = reinterpret_cast<const std::uint32_t*>(host.data_ptr<float>());
      for (const auto& run : shard.runs) {
        if (!shard.counts(run)) continue;
        const std::string fqn = shard.section->segments[run.segment].segment.fqn + name;
        const std::uint64_t key = files::hash(std::as_bytes(std::span(fqn.data(), fqn.size())));
        for (std::int64_t i = 0; i < run.count; ++i) {
          std::uint64_t h =
              key ^ (static_cast<std::uint64_t>(run.segment_offset + i) * 0x9e3779b97f4a7c15ull) ^
              (std::uint64_t{bits[run.shard_offset + i]} << 32 | bits[run.shard_offset + i]);
          h = (h ^ (h >> 31)) * 0xbf58476d1ce4e5b9ull;
          sum += h ^ (h >> 29);
        }
      }
    }
  }
  std::uint64_t total = 0;
  for (const auto& part : comm::all_gather_bytes(host(), std::to_string(sum)))
    total += std::stoull(part);
  return fmt::format("{:016x}", total);
}

}  // namespace coeus::train
