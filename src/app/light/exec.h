#pragma once
#include "app/command.h"

namespace coeus::app {

// The argv of coeus-train for a command: its path (beside this binary, or ../libexec/coeus) and the
// commit it must come from. Throws Error where it is not installed.
Arguments heavy_command(const Arguments& words);

// Becomes that program; returns only by throwing.
[[noreturn]] void exec_heavy(const Arguments& words);

}  // namespace coeus::app
