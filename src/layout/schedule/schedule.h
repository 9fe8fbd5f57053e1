#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace coeus {

// One thing that a pipeline rank does for one micro-batch of one stage. `backward` forms dX only,
// `weight` the weight gradients that it put off.
struct Action {
  enum class Kind {
    forward,
    backward,
    weight,
    send_forward,
    receive_forward,
    send_backward,
    receive_backward
  };
  Kind kind = Kind::forward;
  // Of a send: the stage whose output (forward) or dX (backward) goes out. Of a receive: the stage
  // that gets it.
  std::int64_t stage = 0, micro_batch = 0;
  std::int64_t peer = -1;  // the pipeline rank at the other end of a send or receive
  friend bool operator==(const Action&, const Action&) = default;
};

// Every stage runs each micro-batch forward, backward and weight once, each kind in ascending
// order of micro-batches: then a weight's gradient is summed in the same order in every schedule.
struct Schedule {
  std::string name;
  std::int64_t num_ranks = 1, num_stages = 1, num_micro_batches = 1;
  std::vector<std::int64_t> rank_of_stage;
  std::vector<std::vector<Action>> ranks;  // compute actions only, in order, one list a rank
};

std::vector<std::string> schedule_names();

// `name`: a built-in one, or the path of a .yaml, .yml or .csv file (file.h). Throws ConfigError.
Schedule make_schedule(const std::string& name, std::int64_t num_ranks,
                       std::int64_t stages_per_rank, std::int64_t num_micro_batches);

// Whether some weight action does not directly follow its backward.
bool delays_weights(const Schedule& schedule);

// Adds the sends and receives. One sweep over all ranks adds each send and its receive to both
// lists at once, so that both ends meet them in the same order; between two stages of one rank
// there are none. Expects a schedule that check_schedule proved.
Schedule with_transfers(const Schedule& compute_only);

// Runs the schedule, transfers added, single-threaded, each send waiting for its receive (stricter
// than NCCL). nullopt: proved. Otherwise the shortest counter-example, in words.
std::optional<std::string> check_schedule(const Schedule& compute_only);
// The same of lists that hold transfers already.
std::optional<std::string> check_transfers(const Schedule& with_transfers);

std::string describe(const Action& action);  // "forward of micro-batch 3 on stage 1"

}  // namespace coeus
