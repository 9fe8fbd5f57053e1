#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/tensor.h"
#include "layout/placement.h"

namespace coeus::parallel {

struct RedistributeOptions {
  std::int64_t global_size = 0;  // of the dim that `from` shards; 0: degree · local, even parts
  std::string label = {};        // fqn of the layer concerned
  // Placement of the gradients where it is not the default of the table below.
  std::optional<Placement> input_gradient = {}, output_gradient = {};
};

// x, this rank's part over one axis, as it is placed after `to`. Differentiable: the backward
// redistributes the gradient from `output_gradient` to `input_gradient`, whose defaults are
//
//   from       to         forward         output's gradient  input's gradient  backward
//   Shard      Replicate  all-gather      Partial            Shard             reduce-scatter
//   Partial    Shard      reduce-scatter  Shard              Replicate         all-gather
//   Partial    Replicate  all-reduce      Replicate          Replicate         nothing
//   Replicate  Replicate  nothing         Partial            Replicate         all-reduce
//   Replicate  Shard      slice           Shard              Replicate         all-gather
//   Shard(d)   Shard(e)   all-to-all      Shard(e)           Shard(d)          all-to-all
//
// Sums are rounded once to x's dtype. Receives what received_elements() states. `axis` must outlive
// the backward. What does not fit is a ConfigError before any collective.
Tensor redistribute(const Tensor& x, Placement from, Placement to, comm::Communicator& axis,
                    const RedistributeOptions& options = {});

struct LayoutRedistributeOptions {
  std::string label = {};
  // Placements of the gradients, one for each axis; empty: the table's, but Replicate for an axis
  // that is Replicate on both sides.
  std::vector<Placement> input_gradient = {}, output_gradient = {};
};

// The same between any two layouts over a mesh. `mesh` is a communicator over all of its ranks,
// row-major over the axes: groups along single axes cannot deliver to a rank that differs in two of
// them without receiving more than is stated.
Tensor redistribute(const Tensor& x, const TensorLayout& from, const TensorLayout& to,
                    comm::Communicator& mesh, const LayoutRedistributeOptions& options = {});

}  // namespace coeus::parallel
