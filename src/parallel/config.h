#pragma once
#include <cstdint>
#include <string>

#include "layout/mesh.h"

namespace coeus::config {
class Fields;
}

namespace coeus {

enum class ReshardAfterForward { automatic, always, never };
enum class Accumulate { automatic, sharded, full };
enum class CpStyle { ring, all_gather, ulysses };

struct ParallelConfig {
  std::int64_t dp_replicate = 1, dp_shard = -1, tp = 1, cp = 1, pp = 1, ep = 1;
  bool sequence_parallel = true;
  ReshardAfterForward reshard_after_forward =
      ReshardAfterForward::automatic;             // auto: always, but never with pp > 1
  Accumulate accumulate = Accumulate::automatic;  // auto: sharded, but full with pp > 1
  std::string tp_overlap = "auto";
  std::string pp_schedule = "1f1b";
  std::int64_t pp_stages_per_rank = 1;
  CpStyle cp_style = CpStyle::ring;
  MeshSizes mesh_sizes() const {
    return {
        .pp = pp, .dp_replicate = dp_replicate, .dp_shard = dp_shard, .cp = cp, .tp = tp, .ep = ep};
  }
  void describe(config::Fields& f);
};

enum class Recompute { none, full, selective };
struct ExecutionConfig {
  Recompute recompute = Recompute::none;
  std::int64_t recompute_every = 1;
  std::string cuda_graph = "auto";  // auto | on | off
  struct Kernels {
    std::string attention = "auto", norm = "auto";
    void describe(config::Fields& f);
  } kernels;
  void describe(config::Fields& f);
};

}  // namespace coeus
