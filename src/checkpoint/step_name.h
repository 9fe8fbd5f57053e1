#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"

namespace coeus::checkpoint {

// "step-00001000", or "step-00001000.tmp-2" for what is unfinished or about to be deleted.
struct StepName {
  std::int64_t step;
  std::optional<std::int64_t> attempt;
};
std::string to_string(const StepName& name);
std::optional<StepName> parse_step_name(std::string_view name);  // nullopt: a name we do not know

// A .tmp name of this step that is not taken yet. The directory must exist.
std::string unused_name(const files::Path& directory, std::int64_t step);

}  // namespace coeus::checkpoint
