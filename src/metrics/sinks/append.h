#pragma once
#include "base/files.h"

namespace coeus::metrics {

// Removes a last line without its newline, which a crash left behind, so that appending starts a
// new one.
void drop_torn_line(const files::Path& path);

}  // namespace coeus::metrics
