#pragma once
#include <coeus/nn/attention.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "parallel/config.h"

// Context parallelism: the ranks of an axis share each sequence, and attention is where they meet.
namespace coeus::parallel {

// Which tokens of a sequence a rank holds, in this order, whatever the style: chunks rank and
// 2·degree − 1 − rank of 2·degree, so that a causal mask leaves every rank the same work.
// sequence_length must be a multiple of 2·degree.
std::vector<std::int64_t> context_token_index(std::int64_t sequence_length, std::int64_t degree,
                                              std::int64_t rank);

// A replacement of `attention.core` whose T local tokens are those of context_token_index and whose
// result is that of the dense core on the whole sequence. Uses `cp` in forward and in backward;
// every rank of it must run both. ulysses: the degree must divide the local heads.
std::unique_ptr<nn::AttentionCore> make_context_core(CpStyle style, comm::Communicator& cp);

}  // namespace coeus::parallel
