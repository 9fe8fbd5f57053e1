#include "parallel/context/context.h"

#include "base/error.h"
#include "parallel/context/cores.h"
#include "parallel/context/zigzag.h"

namespace coeus::parallel {

std::vector<std::int64_t> context_token_index(std::int64_t sequence_length, std::int64_t degree,
                                              std::int64_t rank) {
  COEUS_ASSERT(sequence_length % (2 * degree) == 0, "{} tokens in {} chunks", sequence_length,
               2 * degree);
  std::vector<std::int64_t> index;
  for (const Chunk& chunk : chunks_of(rank, degree, sequence_length / (2 * degree))) {
    for (auto t = chunk.tokens.begin; t < chunk.tokens.end; ++t) index.push_back(t);
  }
  return index;
}

std::unique_ptr<nn::AttentionCore> make_context_core(CpStyle style, comm::Communicator& cp) {
  if (cp.size() == 1) return std::make_unique<nn::DenseAttentionCore>();
  switch (style) {
    case CpStyle::ring:
      return make_ring_core(cp);
    case CpStyle::all_gather:
      return make_all_gather_core(cp);
    case CpStyle::ulysses:
      return make_ulysses_core(cp);
  }
  COEUS_ASSERT(false, "no such style");
}

}  // namespace coeus::parallel
