#include "config/suggest.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace coeus::config {
namespace {

std::string folded(std::string_view word) {
  std::string text;
  for (const char c : word) {
    text += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

// Edits of one letter, or a swap of two neighbours, that lead from a to b.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        now[j] = std::min(now[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  const std::string given = folded(word.substr(0, 200));
  std::string best;
  // never all of its letters
  std::size_t best_distance = std::min(std::max<std::size_t>(1, given.size() / 3) + 1,
                                       std::max<std::size_t>(1, given.size()));
  for (const std::string& candidate : known) {
    const std::string other = folded(candidate);
    std::size_t d = distance(given, other);
    // a part of a name, such as "steps" of "warmup_steps", is near as well
    if (given.size() >= 3 && (other.starts_with(given) || given.starts_with(other))) {
      d = std::min<std::size_t>(d, 2);
    }
    if (d < best_distance) {
      best_distance = d;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string best = nearest(word, known);
  return best.empty() ? "" : "; did you mean " + best + "?";
}

}  // namespace coeus::config
