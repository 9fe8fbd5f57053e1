#include "layout/schedule/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

namespace coeus {
namespace {

using Kind = Action::Kind;

constexpr double kLeft = 70, kTop = 60, kRowHeight = 30, kBoxHeight = 24, kRight = 80;
constexpr double kMinWidth = 900, kMaxWidth = 6000;
constexpr double kCharacterWidth = 7;  // a box narrower than its number shows none

// Light to dark, by the stage's turn on its rank.
const char* fill(Kind kind, std::size_t turn) {
  static constexpr const char* kForward[] = {"#9ecae1", "#6baed6", "#4292c6"};
  static constexpr const char* kBackward[] = {"#a1d99b", "#74c476", "#41ab5d"};
  static constexpr const char* kWeight[] = {"#fdd0a2", "#fdae6b", "#fd8d3c"};
  const std::size_t shade = std::min<std::size_t>(turn, 2);
  if (kind == Kind::forward) return kForward[shade];
  return kind == Kind::backward ? kBackward[shade] : kWeight[shade];
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
}

// Which of its rank's stages a stage is, by number.
std::map<std::int64_t, std::size_t> turns(const SimulatedRank& rank) {
  std::map<std::int64_t, std::size_t> turn_of;
  for (const auto& timed : rank.actions) turn_of[timed.action.stage] = 0;
  std::size_t turn = 0;
  for (auto& entry : turn_of) entry.second = turn++;
  return turn_of;
}

void draw_rank(const SimulatedRank& rank, std::size_t row, double scale, double total,
               std::string& out) {
  const auto write = std::back_inserter(out);
  const double y = kTop + static_cast<double>(row) * kRowHeight, text_y = y + 16;
  fmt::format_to(write, "<text x=\"8\" y=\"{:.1f}\">rank {}</text>\n", text_y, row);
  fmt::format_to(write,
                 "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" "
                 "fill=\"#eeeeee\"/>\n",
                 kLeft, y, total * scale, kBoxHeight);
  const auto turn_of = turns(rank);
  for (const auto& timed : rank.actions) {
    const Action& a = timed.action;
    const double x = kLeft + timed.start * scale, width = (timed.end - timed.start) * scale;
    fmt::format_to(write,
                   "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" "
                   "fill=\"{}\" stroke=\"#ffffff\" stroke-width=\"0.5\"><title>{}: {:.6g} to "
                   "{:.6g}</title></rect>\n",
                   x, y, width, kBoxHeight, fill(a.kind, turn_of.at(a.stage)), describe(a),
                   timed.start, timed.end);
    const std::string number = std::to_string(a.micro_batch);
    if (static_cast<double>(number.size()) * kCharacterWidth > width) continue;
    fmt::format_to(write,
                   "<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" "
                   "pointer-events=\"none\">{}</text>\n",
                   x + width / 2, text_y, number);
  }
  fmt::format_to(write, "<text x=\"{:.1f}\" y=\"{:.1f}\">idle {:.1f}%</text>\n",
                 kLeft + total * scale + 6, text_y, total > 0 ? 100 * rank.bubble / total : 0);
}

std::string legend() {
  std::string out;
  double x = kLeft;
  for (const auto& [kind, word] : {std::pair{Kind::forward, "forward"},
                                   {Kind::backward, "backward (dX)"},
                                   {Kind::weight, "weight gradients"}}) {
    fmt::format_to(std::back_inserter(out),
                   "<rect x=\"{:.1f}\" y=\"34\" width=\"14\" height=\"14\" fill=\"{}\"/><text "
                   "x=\"{:.1f}\" y=\"46\">{}</text>\n",
                   x, fill(kind, 0), x + 20, word);
    x += 150;
  }
  return out;
}

}  // namespace

std::string draw_svg(const Simulation& s) {
  std::size_t most = 1;
  for (const auto& rank : s.ranks) most = std::max(most, rank.actions.size());
  const double width =
      std::clamp(static_cast<double>(most) * 3 * kCharacterWidth, kMinWidth, kMaxWidth);
  const double scale = s.total > 0 ? width / s.total : 0;
  const double height = kTop + static_cast<double>(s.ranks.size()) * kRowHeight + 10;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      "<text x=\"8\" y=\"20\" font-size=\"14\">{2}: {3} ranks, {4} stages, {5} micro-batches, "
      "{6:.1f}% idle</text>\n",
      kLeft + width + kRight, height, escaped(s.schedule), s.ranks.size(), s.num_stages,
      s.num_micro_batches, 100 * s.bubble_share());
  out += legend();
  for (std::size_t rank = 0; rank < s.ranks.size(); ++rank) {
    draw_rank(s.ranks[rank], rank, scale, s.total, out);
  }
  return out + "</svg>\n";
}

}  // namespace coeus
