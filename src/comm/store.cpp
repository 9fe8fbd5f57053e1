#include "comm/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/error.h"
#include "comm/operation.h"
#include "core/torch.h"

namespace coeus::comm {
namespace {

using Clock = std::chrono::steady_clock;

c10d::TCPStoreOptions options_for(const World& world, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(world.master_port);
  options.isServer = world.rank == 0 && !world.store_is_served;
  options.waitWorkers = false;
  options.timeout = timeout;
  if (options.isServer && world.listen_fd >= 0) options.masterListenFd = world.listen_fd;
  return options;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

struct Store::Impl {
  c10d::TCPStore store;
  int num_exchanges = 0;
};

Store::Store(const World& world, std::chrono::milliseconds timeout)
    : world_(world), timeout_(timeout) {
  try {
    impl_.reset(new Impl{c10d::TCPStore(world.master_address, options_for(world, timeout))});
  } catch (const std::exception& e) {
    throw CommError(fmt::format("rank {}: cannot {} the store at {}:{}: {}", world.rank,
                                world.rank == 0 && !world.store_is_served ? "serve" : "reach",
                                world.master_address, world.master_port, first_line(e.what())));
  }
}

Store::~Store() = default;

std::vector<std::string> Store::exchange(const std::string& mine) {
  const auto until = Clock::now() + timeout_;
  auto& store = impl_->store;
  std::vector<std::string> keys, all;
  std::vector<int> missing;
  try {
    // A store that outlives a restart holds what earlier attempts wrote: each rank's count of
    // attempts tells them apart.
    const int round = impl_->num_exchanges++;
    const auto attempt = store.add(fmt::format("coeus/{}/attempts/{}", round, world_.rank), 1);
    const auto key = [&](int r) { return fmt::format("coeus/{}/{}/{}", round, attempt, r); };
    store.set(key(world_.rank), std::vector<std::uint8_t>(mine.begin(), mine.end()));
    for (int r = 0; r < world_.size; ++r) {
      keys.push_back(key(r));
      missing.push_back(r);
    }
    const auto came = [&](int r) { return store.check({keys[static_cast<std::size_t>(r)]}); };
    for (auto pause = std::chrono::milliseconds(1);;) {
      while (!missing.empty() && came(missing.back())) missing.pop_back();
      if (missing.empty()) break;
      if (Clock::now() > until) {
        std::erase_if(missing, came);
        break;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::milliseconds(100));
    }
    if (missing.empty()) {
      for (const auto& value : store.multiGet(keys)) all.emplace_back(value.begin(), value.end());
    }
  } catch (const std::exception& e) {
    throw CommError(fmt::format("rank {}: the store at {}:{} was lost: {}", world_.rank,
                                world_.master_address, world_.master_port, first_line(e.what())));
  }
  if (!missing.empty()) {
    throw CommError(fmt::format("rank {}: {} did not come to {}:{} within {}", world_.rank,
                                name_ranks(missing), world_.master_address, world_.master_port,
                                format_seconds(std::chrono::duration<double>(timeout_).count())));
  }
  return all;
}

}  // namespace coeus::comm
