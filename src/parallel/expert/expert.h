#pragma once
#include <coeus/nn/moe.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace coeus::parallel {

// The moe.dispatch seam over the ranks of `ep`, each of which holds num_experts/size experts in
// rank order and calls it with its own rows. A token's rows travel to the owners of its experts and
// back; there they lie by expert, then by source rank. Collective: forward and backward are called
// by all ranks of `ep` together, also by those without rows. `label` names the layer in errors.
std::unique_ptr<nn::MoeDispatch> make_expert_dispatch(comm::Communicator& ep,
                                                      std::int64_t num_experts,
                                                      std::string label = {});

// The same where all experts are here: before the host reads how many rows each gets it waits with
// the deadline of `world`, whose peers the rows may depend on.
std::unique_ptr<nn::MoeDispatch> make_local_dispatch(comm::Communicator& world,
                                                     std::int64_t num_experts,
                                                     std::string label = {});

// The moe.counts seam: the sum over each axis in turn, for the axes that split sequences.
std::unique_ptr<nn::MoeCounts> make_count_sum(std::vector<comm::Communicator*> axes,
                                              std::string label = {});

}  // namespace coeus::parallel
