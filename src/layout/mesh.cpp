#include "layout/mesh.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace coeus {
namespace {

// Every axis, derived ones too, is a contiguous run of the grid's digits: its coordinate is
// rank / stride % degree.
struct Axis {
  std::int64_t stride, degree;
};

Axis find_axis(std::string_view axis, const MeshSizes& s, std::int64_t world_size) {
  const std::int64_t shard_stride = s.cp * s.tp, replicate_stride = s.dp_shard * shard_stride;
  if (axis == "pp") return {s.dp_replicate * replicate_stride, s.pp};
  if (axis == "dp_replicate") return {replicate_stride, s.dp_replicate};
  if (axis == "dp_shard") return {shard_stride, s.dp_shard};
  if (axis == "cp") return {s.tp, s.cp};
  if (axis == "tp") return {1, s.tp};
  if (axis == "batch") return {shard_stride, s.dp_replicate * s.dp_shard};
  if (axis == "loss") return {s.tp, s.dp_replicate * s.dp_shard * s.cp};
  if (axis == "fsdp") return {s.tp, s.dp_shard * s.cp};
  if (axis == "ep") return {1, s.ep};
  if (axis == "efsdp") return {s.ep, replicate_stride / s.ep};
  if (axis == "stage") return {1, s.dp_replicate * replicate_stride};
  if (axis == "world") return {1, world_size};
  throw ConfigError(fmt::format("mesh: there is no axis {}; the axes are {}", axis,
                                fmt::join(Mesh::axes(), ", ")));
}

void check_degrees(std::int64_t world_size, const MeshSizes& s) {
  std::vector<std::string> faults;
  if (world_size < 1) faults.push_back(fmt::format("mesh: a world of {} ranks", world_size));
  const auto check = [&](const char* name, std::int64_t degree, bool may_be_rest = false) {
    if (degree >= 1 || (may_be_rest && degree == -1)) return;
    faults.push_back(fmt::format("parallel.{}: {} is not a degree; it must be at least 1{}", name,
                                 degree, may_be_rest ? ", or -1 for what is left" : ""));
  };
  check("pp", s.pp);
  check("dp_replicate", s.dp_replicate);
  check("dp_shard", s.dp_shard, true);
  check("cp", s.cp);
  check("tp", s.tp);
  check("ep", s.ep);
  if (!faults.empty()) throw ConfigError(fmt::format("{}", fmt::join(faults, "\n")));
}

// The product of degrees; anything above `limit` stands for "too large", so that nothing overflows.
std::int64_t product_up_to(std::int64_t limit, std::initializer_list<std::int64_t> degrees) {
  std::int64_t product = 1;
  for (std::int64_t d : degrees) {
    if (d > limit / product) return limit + 1;
    product *= d;
  }
  return product;
}

std::string degrees_as_text(const MeshSizes& s, bool with_dp_shard) {
  std::string shard = with_dp_shard ? fmt::format(" · dp_shard {}", s.dp_shard) : "";
  return fmt::format("pp {} · dp_replicate {}{} · cp {} · tp {}", s.pp, s.dp_replicate, shard, s.cp,
                     s.tp);
}

MeshSizes resolve(std::int64_t world_size, MeshSizes s) {
  check_degrees(world_size, s);
  if (s.dp_shard == -1) {
    const std::int64_t others = product_up_to(world_size, {s.pp, s.dp_replicate, s.cp, s.tp});
    if (world_size % others != 0) {
      throw ConfigError(fmt::format("parallel: {} does not divide the world of {} rank{}",
                                    degrees_as_text(s, false), world_size,
                                    world_size == 1 ? "" : "s"));
    }
    s.dp_shard = world_size / others;
  } else if (product_up_to(world_size, {s.pp, s.dp_replicate, s.dp_shard, s.cp, s.tp}) !=
             world_size) {
    throw ConfigError(fmt::format("parallel: {} is not the world of {} rank{}",
                                  degrees_as_text(s, true), world_size,
                                  world_size == 1 ? "" : "s"));
  }
  if ((s.dp_shard * s.cp * s.tp) % s.ep != 0) {
    throw ConfigError(fmt::format("parallel.ep: {} does not divide dp_shard {} · cp {} · tp {}",
                                  s.ep, s.dp_shard, s.cp, s.tp));
  }
  return s;
}

}  // namespace

Mesh::Mesh(std::int64_t world_size, const MeshSizes& sizes)
    : world_size_(world_size), sizes_(resolve(world_size, sizes)) {}

std::int64_t Mesh::degree(std::string_view axis) const {
  return find_axis(axis, sizes_, world_size_).degree;
}

std::int64_t Mesh::coordinate(std::string_view axis, std::int64_t rank) const {
  COEUS_ASSERT(rank >= 0 && rank < world_size_, "rank {} of {}", rank, world_size_);
  const Axis a = find_axis(axis, sizes_, world_size_);
  return rank / a.stride % a.degree;
}

std::vector<std::int64_t> Mesh::group(std::string_view axis, std::int64_t rank) const {
  const Axis a = find_axis(axis, sizes_, world_size_);
  const std::int64_t first = rank - coordinate(axis, rank) * a.stride;
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(a.degree));
  for (std::int64_t i = 0; i < a.degree; ++i) {
    ranks[static_cast<std::size_t>(i)] = first + i * a.stride;
  }
  return ranks;
}

std::vector<std::vector<std::int64_t>> Mesh::groups(std::string_view axis) const {
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t rank = 0; rank < world_size_; ++rank) {
    if (coordinate(axis, rank) == 0) all.push_back(group(axis, rank));
  }
  return all;
}

const std::vector<std::string>& Mesh::axes() {
  static const std::vector<std::string> names = {"pp", "dp_replicate", "dp_shard", "cp",
                                                 "tp", "batch",        "loss",     "fsdp",
                                                 "ep", "efsdp",        "stage",    "world"};
  return names;
}

std::string Mesh::describe() const {
  std::vector<std::string> parts;
  for (const char* axis : {"pp", "dp_replicate", "dp_shard", "cp", "tp", "ep"}) {
    if (degree(axis) > 1) parts.push_back(fmt::format("{} {}", axis, degree(axis)));
  }
  return parts.empty() ? "1 rank" : fmt::format("{}", fmt::join(parts, " · "));
}

}  // namespace coeus
