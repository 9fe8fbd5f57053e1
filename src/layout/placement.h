#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace coeus {

// What one axis does to a tensor: each rank holds all of it, a part of one dim, or a summand of it.
struct Placement {
  enum class Kind { replicate, shard, partial };
  Kind kind = Kind::replicate;
  std::int64_t dim = -1;  // of shard only
  bool operator==(const Placement&) const = default;
};
inline Placement replicate() {
  return {};
}
inline Placement shard(std::int64_t dim) {
  return {Placement::Kind::shard, dim};
}
inline Placement partial() {
  return {Placement::Kind::partial};
}
std::string to_string(const Placement& placement);  // "Replicate", "Shard(1)", "Partial"

// What rank `coordinate` of `degree` holds of a dim: ceil(size/degree) elements each until they run
// out, so that later ranks hold fewer or none.
struct ShardRange {
  std::int64_t begin, size;
};
ShardRange shard_range(std::int64_t size, std::int64_t degree, std::int64_t coordinate);

struct LayoutAxis {
  std::string name;
  std::int64_t degree = 1;
  bool operator==(const LayoutAxis&) const = default;
};

// A tensor over a mesh. Several axes may shard one dim: the outermost cuts first.
struct TensorLayout {
  std::vector<std::int64_t> shape;    // of the whole tensor
  std::vector<LayoutAxis> axes;       // outermost first
  std::vector<Placement> placements;  // one for each axis
};
std::int64_t num_ranks(const TensorLayout& layout);
std::string describe(
    const TensorLayout& layout);  // "[8, 16] as Shard(0) over dp 2, Partial over tp 4"

// Ranks count row-major over the axes.
using Coordinates = std::vector<std::int64_t>;
Coordinates coordinates_of(const TensorLayout& layout, std::int64_t rank);

// A block of the whole tensor.
struct TensorPart {
  std::vector<std::int64_t> offset, shape;
  std::int64_t num_elements() const;
};
TensorPart part_at(const TensorLayout& layout, const Coordinates& coordinates);
TensorPart intersect(const TensorPart& a, const TensorPart& b);

// Throws ConfigError naming `op`, both layouts and what is wrong: other shapes or axes, a dim that
// the tensor lacks, a placement missing, Replicate or Shard to Partial (which rank would hold what
// is not said).
void check_redistribute(const TensorLayout& from, const TensorLayout& to, std::string_view op);

// A redistribution is one exchange, with all axes that go from Partial to Replicate all-reduced
// together beside it: before it where `from`'s parts are no larger than `to`'s, else after it.
struct Redistribution {
  enum class Order { all_reduce_first, exchange_first };
  std::vector<std::size_t> all_reduced;  // axes
  Order order = Order::all_reduce_first;
  TensorLayout exchange_from, exchange_to;
  std::int64_t num_summands = 1;  // added up in the exchange: degrees of the axes Partial -> Shard
};
Redistribution decompose(const TensorLayout& from, const TensorLayout& to);

// Whether `source` delivers to `target` in an exchange. The sources of one target hold every
// element of the tensor once for each summand, and are as near to it as can be: they differ from it
// only along axes that `from` shards or whose summands are added up.
bool is_source(const Redistribution& how, const Coordinates& source, const Coordinates& target);

// The elements that the rank at `coordinates` receives, exactly:
// - in the exchange: s · |to| − |from ∩ to|, with |to| its target part, s the product of the
// degrees
//   of the axes Partial -> Shard. Without such axes that is: target elements not held locally. With
//   one of degree n alone: (n−1) times its target part, (n−1)/n of the tensor if even.
// - in the all-reduce of N elements over n ranks: its flat part p = shard_range(N, n, rank).size
//   from each of the others (reduce-scatter), then what lies outside of it (all-gather): p·(n−1) +
//   N − p.
std::int64_t received_elements(const TensorLayout& from, const TensorLayout& to,
                               const Coordinates& coordinates);

}  // namespace coeus
