#include <chrono>

#include "base/error.h"
#include "metrics/record.h"

namespace coeus::metrics {

void append_event(const files::Path& run_directory, const std::string& event, Json details) {
  COEUS_ASSERT(details.is_object(), "details of event {}", event);
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  Json line = {{"time", now.count()}, {"event", event}};
  line.update(details);
  files::append_line(run_directory / "events.jsonl",
                     line.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace coeus::metrics
