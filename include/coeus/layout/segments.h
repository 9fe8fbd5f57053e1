#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace coeus {

enum class InitKind { normal, ones, zeros };
// normal: mean 0, the given standard deviation, cut at three of them.
struct Init {
  InitKind kind = InitKind::normal;
  double std = 0.02;
  friend bool operator==(const Init&, const Init&) = default;
};

// Which dtype a parameter is computed in: the run's precision.compute, or fp32 always (routers).
enum class ComputeType { compute, fp32 };

// Attention heads that a matrix's rows or columns consist of, in equal parts; 0: not made of heads.
struct Heads {
  std::int64_t rows = 0, columns = 0;
  friend bool operator==(const Heads&, const Heads&) = default;
};

// One tensor of the Hugging Face file.
struct Segment {
  std::string fqn;
  std::vector<std::int64_t> shape;
  Init init;
  Heads heads = {};  // what head_parallel cuts by
  std::int64_t num_elements() const {
    std::int64_t n = 1;
    for (auto d : shape) n *= d;
    return n;
  }
  friend bool operator==(const Segment&, const Segment&) = default;
};

// What one rank holds of a segment under tensor parallelism.
struct Part {
  std::int64_t dim = -1, begin = 0, end = 0;  // rows (0) or columns (1) [begin, end); −1: all of it
  std::int64_t copies = 1,
               copy = 0;  // tp ranks that hold this very part, and which of them this is
  bool summed = false;    // their gradients are terms of a sum; else they are equal
  friend bool operator==(const Part&, const Part&) = default;
};

// A stack of segments along dim 0, contiguous in its unit: the fused matmul sees the stack.
struct ParameterSpec {
  std::string fqn;
  std::vector<Segment> segments;
  ComputeType compute = ComputeType::compute;
  std::vector<Part> parts = {};  // one a segment; empty: all of each
  std::int64_t reserved = 0;     // elements in the unit, the same on every tp rank; 0: its own
  std::int64_t num_elements() const {
    std::int64_t n = 0;
    for (const auto& s : segments) n += s.num_elements();
    return n;
  }
  Part part(std::size_t segment) const { return parts.empty() ? Part{} : parts[segment]; }
  std::vector<std::int64_t> local_shape() const;  // of the stack of parts
  friend bool operator==(const ParameterSpec&, const ParameterSpec&) = default;
};

// One layer of a chain, its parameters in the order in which the built model registers them.
struct LayerSpec {
  std::string name;
  std::vector<ParameterSpec> parameters;
  std::vector<Segment> buffers = {};  // fp32 state without a gradient, saved with the weights
};

// `alias` is the same tensor as `target` (head.weight, embed.weight): it has no storage and no file
// entry of its own.
struct Tie {
  std::string alias, target;
  friend bool operator==(const Tie&, const Tie&) = default;
};

// config -> what a model holds, without libtorch.
struct ModelSpec {
  std::vector<LayerSpec> layers;
  std::vector<Tie> ties;
  std::int64_t vocab_size = 0, num_layers = 0, num_heads = 0, head_dim = 0, dim = 0;
  // Routed experts of a layer that has them, and how many of them a token is sent to; 0: none.
  std::int64_t num_experts = 0, top_k = 0;
  bool is_routed(const std::string& fqn) const;  // whether a parameter or segment is experts'
  std::int64_t num_parameters() const;           // ties once
  std::int64_t num_active_parameters() const;    // that a token meets: top_k of num_experts
  // 6·N + 12·layers·heads·head_dim·sequence_length (TorchTitan's count: N active parameters
  // without the input embedding unless tied, causality not credited).
  double flops_per_token(std::int64_t sequence_length) const;
  double flops_per_token_causal(std::int64_t sequence_length) const;  // attention counted half
};

}  // namespace coeus
