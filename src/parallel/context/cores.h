#pragma once
#include <coeus/nn/attention.h>

#include <memory>

#include "comm/communicator.h"

// One a style, a file each. n ranks, B sequences of L tokens, T = L/n of them local, H heads, G
// key-value heads, K head dim of q and k, V of v
namespace coeus::parallel {

std::unique_ptr<nn::AttentionCore> make_ring_core(comm::Communicator& cp);
std::unique_ptr<nn::AttentionCore> make_all_gather_core(comm::Communicator& cp);
std::unique_ptr<nn::AttentionCore> make_ulysses_core(comm::Communicator& cp);

}  // namespace coeus::parallel
