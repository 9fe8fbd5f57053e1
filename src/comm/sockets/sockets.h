#pragma once
#include <memory>

#include "comm/sockets/socket_world.h"

namespace coeus::comm {

// The world's communicator over TCP, for CPU tensors: ring algorithms, the same bits on every rank.
std::unique_ptr<Communicator> make_sockets(std::shared_ptr<SocketWorld> world,
                                           const std::string& name);

}  // namespace coeus::comm
