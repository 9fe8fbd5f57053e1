#pragma once
#include <string>

#include "layout/schedule/simulator.h"

namespace coeus {

// A picture of who computes what when: a row a rank, time from left to right, each action with its
// micro-batch; later stages of a rank are darker. A tooltip says the action and its time.
std::string draw_svg(const Simulation& simulation);

}  // namespace coeus
