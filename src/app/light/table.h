#pragma once
#include <string>
#include <vector>

namespace coeus::app {

enum class Align { left, right };

// Columns as wide as their widest cell, the first row as the head.
void print_table(const std::vector<std::vector<std::string>>& rows,
                 const std::vector<Align>& align);

std::string human_bytes(double bytes);  // "1.5 GiB"

}  // namespace coeus::app
