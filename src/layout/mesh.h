#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coeus {

// The degrees of a layout. dp_shard -1: what is left of the world.
struct MeshSizes {
  std::int64_t pp = 1, dp_replicate = 1, dp_shard = -1, cp = 1, tp = 1, ep = 1;
};

// All ranks as a grid, world = pp · dp_replicate · dp_shard · cp · tp, outermost first (rank order
// equals torch's DeviceMesh). Axes: pp, dp_replicate, dp_shard, cp, tp; derived: batch =
// dp_replicate·dp_shard, loss = dp_replicate·dp_shard·cp, fsdp = dp_shard·cp, ep and efsdp carved
// from dp_shard·cp·tp (ep the low-order part), stage = all ranks of one pp coordinate,
// world.
class Mesh {
 public:
  // Throws ConfigError naming the degrees that do not fit.
  Mesh(std::int64_t world_size, const MeshSizes& sizes);

  std::int64_t size() const { return world_size_; }
  const MeshSizes& sizes() const { return sizes_; }  // dp_shard resolved
  std::int64_t degree(std::string_view axis) const;
  std::int64_t coordinate(std::string_view axis, std::int64_t rank) const;
  std::vector<std::int64_t> group(std::string_view axis, std::int64_t rank)
      const;  // the ranks that differ from `rank` along this axis only, in axis order
  std::vector<std::vector<std::int64_t>> groups(
      std::string_view axis) const;  // all of them, each rank in exactly one
  static const std::vector<std::string>& axes();
  std::string describe() const;  // "dp_shard 4 · tp 2"

 private:
  std::int64_t world_size_;
  MeshSizes sizes_;
};

}  // namespace coeus
