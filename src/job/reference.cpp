#include "config/reference.h"

#include <fmt/format.h>

#include "job/job_config.h"
#include "job/rules.h"
#include "job/sections.h"

namespace coeus {
namespace {

constexpr const char* kHead = R"(# Configuration

Every field there is, as `coeus configs fields` prints it. A configuration is one YAML file:

- An unknown or repeated key, a wrong type, a value out of range and an illegal combination are errors, all reported together
  with file:line:col, before any device or network is touched.
- `base: other.yaml` inherits (relative to the file, or a built-in name): maps merge, lists are replaced, null is the default.
- `key.sub=value` or `--key.sub=value` after the file overrides; items of a list by index (`data.sources.0=mine.txt`), or the whole
  list as YAML (`optimizer.betas=[0.9, 0.99]`). Giving one of training.steps, tokens, epochs takes back the others.
- "So far only" marks a key whose other values are not built yet: they are errors.
- Counts take `K M B` (powers of ten) and `Ki Mi` (powers of two), durations `30s 10m 2h`.
)";

std::string escape(const std::string& cell) {
  std::string text;
  for (const char c : cell) text += c == '|' ? std::string("\\|") : std::string(1, c);
  return text;
}

std::string initial(const config::FieldLine& field) {
  if (field.range.find("required") != std::string::npos) return "";
  return "`" + escape(field.initial) + "`";
}

std::string kind(const config::FieldLine& field) {
  std::string text = field.type;
  if (field.type.starts_with("word")) {
    text = field.range;  // a word's range are its words
  } else if (!field.range.empty()) {
    text += ", " + field.range;
  }
  const std::string accepted = job::accepted_so_far(field.path);
  if (!accepted.empty()) text += "; so far only " + accepted;
  return escape(text);
}

}  // namespace

std::string configuration_reference() {
  JobConfig config;
  config.model = make_model_config(model_names().front());
  const config::Value schema = job::write_tree(config, config::Mode::schema);
  std::string text = kHead;
  for (const config::FieldLine& field : config::list_fields(schema)) {
    const bool top = field.path.find('.') == std::string::npos;
    if (top) {
      text +=
          fmt::format("\n## {}\n\n{}\n\n| key | type and range | default | |\n|---|---|---|---|\n",
                      field.path, field.doc);
    }
    if (field.section) continue;
    text += fmt::format("| `{}` | {} | {} | {} |\n", field.path, kind(field), initial(field),
                        escape(field.doc));
  }
  return text;
}

}  // namespace coeus
