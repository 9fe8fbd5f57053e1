#include "checkpoint/agree.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace coeus::checkpoint {
namespace {

constexpr char kDone = '+', kFailed = '-';
constexpr std::size_t kMaxLines = 20, kMaxRanks = 8;

struct Cause {
  std::string text;
  std::vector<std::size_t> ranks;
};

// One cause a line of each failure; ranks that tell the same share it.
std::vector<Cause> causes_of(const std::vector<std::string>& all) {
  std::vector<Cause> causes;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty() || all[rank][0] != kFailed) continue;
    std::istringstream lines(all[rank].substr(1));
    for (std::string line; std::getline(lines, line);) {
      const auto same = std::find_if(causes.begin(), causes.end(),
                                     [&](const Cause& c) { return c.text == line; });
      if (same == causes.end()) {
        causes.push_back({line, {rank}});
      } else if (same->ranks.back() != rank) {
        same->ranks.push_back(rank);
      }
    }
  }
  return causes;
}

std::string name_ranks(const std::vector<std::size_t>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  if (ranks.size() <= kMaxRanks) return fmt::format("ranks {}", fmt::join(ranks, ", "));
  return fmt::format("ranks {} and {} more",
                     fmt::join(ranks.begin(), ranks.begin() + kMaxRanks, ", "),
                     ranks.size() - kMaxRanks);
}

}  // namespace

std::vector<std::string> agree(const Peers& peers, const std::string& what,
                               const std::function<std::string()>& work) {
  std::string mine;
  try {
    mine = kDone + work();
  } catch (const std::exception& e) {
    mine = kFailed + std::string(*e.what() ? e.what() : "unknown failure");
  }
  auto all = peers.all_gather(mine);
  std::vector<std::string> lines;
  for (const auto& cause : causes_of(all)) {
    lines.push_back(all.size() == 1
                        ? fmt::format("{}: {}", what, cause.text)
                        : fmt::format("{}: {}: {}", what, name_ranks(cause.ranks), cause.text));
  }
  if (lines.size() > kMaxLines) {
    const std::size_t more = lines.size() - kMaxLines;
    lines.resize(kMaxLines);
    lines.push_back(fmt::format("{}: and {} more faults", what, more));
  }
  if (!lines.empty()) throw CheckpointError(fmt::format("{}", fmt::join(lines, "\n")));
  for (auto& text : all) text.erase(0, 1);
  return all;
}

}  // namespace coeus::checkpoint
